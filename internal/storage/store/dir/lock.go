package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

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
	lock := flock.New(filepath.Join(d.path, filepath.FromSlash(name)), flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock() // shared, so that two checks do not conflict
	switch {
	case errors.Is(err, os.ErrNotExist), d.guard != nil && isAny(err, unsupported):
		return nil
	case err != nil:
		return d.lockFailed(name, err)
	case !free:
		return fault.TryAgain(&store.LockedError{URL: d.path, Lock: name, Owner: d.readOwner(name)})
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

// flock opens and locks the file. It is first opened through os.Root, which refuses a link out of the output; flock then opens
// the same name by path.
func (d *Dir) flock(name string) (*flock.Flock, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, d.failed("open lock", name, err)
	}
	f.Close()
	lock := flock.New(filepath.Join(d.path, filepath.FromSlash(name)), flock.SetPermissions(fileMode))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, d.lockFailed(name, err)
	}
	if !locked {
		return nil, fault.TryAgain(&store.LockedError{URL: d.path, Lock: name, Owner: d.readOwner(name)})
	}
	return lock, nil
}

// lockFailed returns the error for a failed lock of the system.
func (d *Dir) lockFailed(name string, err error) error {
	if isAny(err, unsupported) {
		return fault.Usage(fmt.Errorf("lock %s in %s: the file system has no locks (flock): %w; mount it with locks, or choose another "+
			"directory or a bucket", name, d.path, err))
	}
	return d.failed("lock", name, err)
}

// signLock writes the owner into the locked file itself, because a rename would unlock it.
func (d *Dir) signLock(name, owner string) error {
	text, err := json.Marshal(store.NewOwner(owner))
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	if err := d.root.WriteFile(name, append(text, '\n'), fileMode); err != nil {
		return d.failed("write lock", name, err)
	}
	return nil
}

// readOwner reads the owner's line. The owner writes it just after locking, so an empty file is read once more.
func (d *Dir) readOwner(name string) store.Owner {
	var owner store.Owner
	for range 2 {
		text, err := d.root.ReadFile(name)
		if err == nil && json.Unmarshal(text, &owner) == nil {
			return owner
		}
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return store.Owner{}
}
