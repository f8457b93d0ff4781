package dir

import (
	"context"
	"errors"
	"path"
	"syscall"

	"github.com/gofrs/flock"
)

// Guard is a lock that holds between hosts. A lock of the system may hold within one host alone where a directory lies on a
// network.
type Guard interface {
	// Lock, Held: see store.Store.
	Lock(ctx context.Context, name, owner string) (release func(), err error)
	Held(ctx context.Context, name string) error
	// Mine is store.ErrLost where the lock may be another one's.
	Mine(ctx context.Context) error
}

// Guard makes the directory take a lock of g beside that of the system, for every lock. Set it before the first call. flock
// says that the system's lock is taken too; a file system that has none is no error then.
func (d *Dir) Guard(g Guard, flock bool) { d.guard, d.noFlock = g, !flock }

// unsupported are the errors of a file system without locks.
var unsupported = []error{errors.ErrUnsupported, syscall.ENOSYS, syscall.EOPNOTSUPP}

// lockBoth takes the lock of the system and that of the guard. The first may be nil.
func (d *Dir) lockBoth(ctx context.Context, name, owner string) (own *flock.Flock, release func(), err error) {
	release = func() {}
	if _, err := d.ensureDir(path.Dir(name)); err != nil {
		return nil, nil, err
	}
	if d.guard == nil || !d.noFlock {
		own, err = d.flock(name)
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
	if err := d.signLock(name, owner); err != nil {
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

// mine is store.ErrLost where a guarded lock may be another one's.
func (d *Dir) mine(ctx context.Context) error {
	if d.guard == nil {
		return nil
	}
	return d.guard.Mine(ctx)
}
