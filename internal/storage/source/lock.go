package source

import (
	"context"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// Ends of the names of an entry's locks, which the system releases when a process ends. Who reads or copies the entry
// shares the lock of its use; who removes it has that alone. Who copies has the other alone.
const (
	useEnd  = ".lock"
	fillEnd = ".copying"
)

const lockPause = 50 * time.Millisecond

// lockFile waits for a lock. A lock file that was removed meanwhile locks nothing, so it is taken anew.
func lockFile(ctx context.Context, path string, exclusive bool) (*flock.Flock, error) {
	for {
		l := flock.New(path)
		try := l.TryRLockContext
		if exclusive {
			try = l.TryLockContext
		}
		if _, err := try(ctx, lockPause); err != nil {
			_ = l.Close()
			return nil, err
		}
		if isCurrent(l) {
			return l, nil
		}
		_ = l.Close()
	}
}

// isCurrent reports whether a lock's file is still the one under its name.
func isCurrent(l *flock.Flock) bool {
	mine, err := l.Stat()
	there, err2 := os.Stat(l.Path())
	return err == nil && err2 == nil && os.SameFile(mine, there)
}
