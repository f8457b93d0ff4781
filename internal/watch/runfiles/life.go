package runfiles

import (
	"context"
	"errors"
	"time"

	"latentbeam/internal/storage/store"
)

// Life tells whether a process is alive.
type Life string

// Lives of a process.
const (
	Alive  Life = "alive"  // its facts are fresh
	Silent Life = "silent" // its facts are old, but it holds its lock: it is paused, overloaded or cannot write
	Dead   Life = "dead"   // its facts are old, and it does not hold its lock
	Ended  Life = "ended"  // its facts say so, or it was cancelled and does not hold its lock
)

// maxMissed is the number of writes that a process may miss before its lock is checked.
const maxMissed = 3

// LifeOf tells whether the process that wrote the facts is alive. Facts that seem old may come from a host whose clock is wrong,
// so LifeOf then checks the process's lock. In a bucket this can take up to a minute.
func (j Folder) LifeOf(ctx context.Context, f Facts, now time.Time) (Life, error) {
	if f.State.Ended() {
		return Ended, nil
	}
	age := now.Sub(f.At)
	if f.Every > 0 && age.Seconds() < maxMissed*f.Every && age > -time.Minute {
		return Alive, nil
	}
	notAlive := Dead
	if f.State == Cancelling { // a cancelled process can end before it writes its final state
		notAlive = Ended
	}
	if f.Lock == "" {
		return notAlive, nil
	}
	err := j.Store.Held(ctx, f.Lock)
	var held *store.LockedError
	switch {
	case errors.As(err, &held):
		if held.Owner.PID == f.PID && held.Owner.Host == f.Host {
			return Silent, nil
		}
		return notAlive, nil // another process has acquired the lock
	case err != nil:
		return "", err
	}
	return notAlive, nil
}
