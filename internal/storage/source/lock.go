package source

import (
	"context"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// Suffixes of an entry's locks. The system releases them when a process ends. Processes that read or copy the entry share the
// use lock; to remove the entry a process needs it exclusively. To copy, a process needs the other lock exclusively.
const (
	useEnd  = ".lock"
	fillEnd = ".copying"
)

const lockPause = 50 * time.Millisecond

// lockFile waits for a lock. If the lock file was removed meanwhile, the lock has no effect, so it is acquired again.
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

// isCurrent reports whether a lock's file still exists under its name.
func isCurrent(l *flock.Flock) bool {
	mine, err := l.Stat()
	there, err2 := os.Stat(l.Path())
	return err == nil && err2 == nil && os.SameFile(mine, there)
}
