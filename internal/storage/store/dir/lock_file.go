package dir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// lockFile is the file of a lock.
type lockFile struct {
	dir  *Dir
	name string
}

// path is the file's path for programs that do not know the directory's os.Root.
func (f lockFile) path() string { return filepath.Join(f.dir.path, filepath.FromSlash(f.name)) }

// tryLock opens and locks the file. It is first opened through os.Root, which refuses a link out of the output; flock then opens
// the same name by path.
func (f lockFile) tryLock() (*flock.Flock, error) {
	file, err := f.dir.root.OpenFile(f.name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, f.dir.failed("open lock", f.name, err)
	}
	file.Close()
	lock := flock.New(f.path(), flock.SetPermissions(fileMode))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, f.failed(err)
	}
	if !locked {
		return nil, fault.TryAgain(&store.LockedError{URL: f.dir.path, Lock: f.name, Owner: f.owner()})
	}
	return lock, nil
}

// failed returns the error for a failed lock of the system.
func (f lockFile) failed(err error) error {
	if isAny(err, unsupported) {
		return fault.Usage(fmt.Errorf("lock %s in %s: the file system has no locks (flock): %w; mount it with locks, or choose another "+
			"directory or a bucket", f.name, f.dir.path, err))
	}
	return f.dir.failed("lock", f.name, err)
}

// sign writes the owner into the locked file itself, because a rename would unlock it.
func (f lockFile) sign(owner string) error {
	text, err := json.Marshal(store.NewOwner(owner))
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.name, err)
	}
	if err := f.dir.root.WriteFile(f.name, append(text, '\n'), fileMode); err != nil {
		return f.dir.failed("write lock", f.name, err)
	}
	return nil
}

// owner reads the owner's line. The owner writes it just after locking, so an empty file is read once more.
func (f lockFile) owner() store.Owner {
	var owner store.Owner
	for range 2 {
		text, err := f.dir.root.ReadFile(f.name)
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
