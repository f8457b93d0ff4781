package runfiles

import (
	"context"
	"errors"
	"time"

	"latentbeam/internal/storage/store"
)

// Life says whether a process is alive.
type Life string

// Lives of a process.
const (
	Alive  Life = "alive"  // its facts are fresh
	Silent Life = "silent" // it holds its lock, but its facts are old: it is paused, overloaded or cannot write
	Dead   Life = "dead"   // its facts are old and nobody holds its lock
	Ended  Life = "ended"  // it said so, or it was told to end at once and is gone
)

// late is how many writes a process may miss until its lock is asked.
const late = 3

// LifeOf tells whether the process that wrote facts lives. Facts that are old by the clock here may come from a
// process whose clock is behind, so its lock decides. In a bucket that may wait up to a minute for a sign of life.
func (j Folder) LifeOf(ctx context.Context, f Facts, now time.Time) (Life, error) {
	if f.State.Ended() {
		return Ended, nil
	}
	age := now.Sub(f.At)
	if f.Every > 0 && age.Seconds() < late*f.Every && age > -time.Minute {
		return Alive, nil
	}
	gone := Dead
	if f.State == Cancelling { // a step that cannot be interrupted ends with its process
		gone = Ended
	}
	if f.Lock == "" {
		return gone, nil
	}
	err := j.Store.Held(ctx, f.Lock)
	var held *store.LockedError
	switch {
	case errors.As(err, &held):
		if held.Owner.PID == f.PID && held.Owner.Host == f.Host {
			return Silent, nil
		}
		return gone, nil // another process has the lock since
	case err != nil:
		return "", err
	}
	return gone, nil
}
