package dir

import (
	"context"
	"errors"
	"path"
	"syscall"

	"github.com/gofrs/flock"
)

// Guard is a lock that works between hosts. On a network file system, a lock of the system may work only within one host.
type Guard interface {
	// Lock and Held: see store.Store.
	Lock(ctx context.Context, name, owner string) (release func(), err error)
	Held(ctx context.Context, name string) error
	// Mine returns store.ErrLost if another process may hold the lock.
	Mine(ctx context.Context) error
}

// Guard makes the directory acquire a lock of g for every lock. It must be called before the first use. flock says that the
// system's lock is acquired too; a file system without locks is then no error.
func (d *Dir) Guard(g Guard, flock bool) { d.guard, d.noFlock = g, !flock }

// unsupported are the errors of a file system without locks.
var unsupported = []error{errors.ErrUnsupported, syscall.ENOSYS, syscall.EOPNOTSUPP}

// lockBoth acquires the system's lock and the guard's. own may be nil.
func (d *Dir) lockBoth(ctx context.Context, name, owner string) (own *flock.Flock, release func(), err error) {
	release = func() {}
	if _, err := d.ensureDir(path.Dir(name)); err != nil {
		return nil, nil, err
	}
	file := lockFile{d, name}
	if d.guard == nil || !d.noFlock {
		own, err = file.tryLock()
		if err != nil && !(d.guard != nil && (isAny(err, unsupported) || errors.Is(err, syscall.ENOLCK))) {
			return nil, nil, err
		}
	}
	if d.guard != nil {
		if release, err = d.guard.Lock(ctx, name, owner); err != nil {
			unlock(own)
			return nil, nil, err
		}
	}
	if err := file.sign(owner); err != nil {
		release()
		unlock(own)
		return nil, nil, err
	}
	return own, release, nil
}

func unlock(own *flock.Flock) {
	if own != nil {
		own.Unlock()
	}
}

// mine returns store.ErrLost if another process may hold a guarded lock.
func (d *Dir) mine(ctx context.Context) error {
	if d.guard == nil {
		return nil
	}
	return d.guard.Mine(ctx)
}
