package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/gofrs/flock"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Lock acquires the lock with this name without waiting, or returns a *LockedError. If the process dies for any reason, the
// lock is released. The file stays after release, because removing it would allow two processes to lock two files with the same
// name. A Dir holds at most one lock at a time.
func (d *Dir) Lock(ctx context.Context, name, owner string) (release func(), err error) {
	if err := checkCall(ctx, name); err != nil {
		return nil, err
	}
	if held := d.setScope(noScope, scopeOf(name)); !held {
		return nil, fmt.Errorf("lock %s: this run already holds a lock on %s", name, d.path)
	}
	lock, free, err := d.lockBoth(ctx, name, owner)
	if err != nil {
		d.setScope(scopeOf(name), noScope)
		return nil, err
	}
	d.held = lock // only the one that sets the scope gets here
	return sync.OnceFunc(func() {
		lock, d.held = d.held, nil
		d.setScope(scopeOf(name), noScope)
		free()
		unlock(lock)
	}), nil
}

// Held returns the *LockedError of the process that holds the lock with this name, nil if no process does. It does not acquire
// the lock.
func (d *Dir) Held(ctx context.Context, name string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if d.guard != nil {
		if err := d.guard.Held(ctx, name); err != nil || d.noFlock {
			return err
		}
	}
	file := lockFile{d, name}
	lock := flock.New(file.path(), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock() // shared, so that two checks do not conflict
	switch {
	case errors.Is(err, os.ErrNotExist), d.guard != nil && isAny(err, unsupported):
		return nil
	case err != nil:
		return file.failed(err)
	case !free:
		return fault.TryAgain(&store.LockedError{URL: d.path, Lock: name, Owner: file.owner()})
	}
	return lock.Unlock()
}

// setScope changes the scope of temporary names from one value to another. It returns false if the scope has another value.
func (d *Dir) setScope(from, to string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.scope != from {
		return false
	}
	d.scope = to
	return true
}
