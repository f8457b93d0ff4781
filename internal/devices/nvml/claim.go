package nvml

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"latentbeam/schemas/fault"
)

// Owner describes the process that has claimed a device. It is the content of the lock file.
type Owner struct {
	PID   int       `json:"pid"`
	What  string    `json:"what"` // such as "run job.yaml"
	Since time.Time `json:"since"`
}

// BusyError says that another process has claimed a device.
type BusyError struct {
	UUID  string
	Owner Owner
}

// Error names the device and its owner.
func (e *BusyError) Error() string {
	if e.Owner.PID == 0 {
		return fmt.Sprintf("%s is in use by another latentbeam", short(e.UUID))
	}
	return fmt.Sprintf("%s is in use by pid %d (%s) since %s", short(e.UUID), e.Owner.PID, e.Owner.What,
		e.Owner.Since.Format("2006-01-02 15:04:05"))
}

// ClaimsEnv is the environment variable for the directory of lock files. Set it where processes do not share the
// default directory, such as in containers that see the same devices.
const ClaimsEnv = "LATENTBEAM_RUNTIME_DIR"

// ClaimsDir returns the directory of lock files that all processes of this host share: ClaimsEnv, else
// a directory in /run/lock, which every user can write to, else in the directory of temporary files.
func ClaimsDir() string {
	if dir := os.Getenv(ClaimsEnv); dir != "" {
		return dir
	}
	const common = "/run/lock"
	if info, err := os.Stat(common); err == nil && info.IsDir() && info.Mode().Perm()&0o002 != 0 {
		return filepath.Join(common, "latentbeam")
	}
	return filepath.Join(os.TempDir(), "latentbeam-lock")
}

// Claim claims a device for this process until release, without waiting. It returns *BusyError if another process has it. The
// kernel releases the claim when the process dies. The file stays, because removing it would let two
// processes lock two files of the same name.
func Claim(dir, uuid, what string) (release func(), err error) {
	name, err := lockFile(dir, uuid)
	if err != nil {
		return nil, err
	}
	// The file may belong to another user; flock needs only read access.
	lock := flock.New(name, flock.SetFlag(os.O_RDONLY))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fault.TryAgain(fmt.Errorf("claim %s: %w", short(uuid), err))
	}
	if !locked {
		return nil, fault.TryAgain(&BusyError{uuid, readOwner(name)})
	}
	text, err := json.Marshal(Owner{os.Getpid(), what, time.Now().Round(time.Second)})
	if err == nil {
		sign(name, append(text, '\n'))
	}
	var once sync.Once
	return func() { once.Do(func() { _ = lock.Close() }) }, nil
}

// Holder returns the owner of a claimed device; nil: no visible process has claimed it. Holder itself claims nothing.
func Holder(dir, uuid string) *BusyError {
	if uuid == "" || len(uuid) > maxUUID || strings.Trim(uuid, uuidLetters) != "" {
		return nil
	}
	name := lockName(dir, uuid)
	if !locked(name) {
		return nil
	}
	return &BusyError{uuid, readOwner(name)}
}

func lockName(dir, uuid string) string {
	return filepath.Join(dir, strings.ReplaceAll(uuid, "/", "_")+".lock")
}

const (
	lockMode    = 0o666                 // any user may lock
	lockDirMode = 0o777 | os.ModeSticky // any user may add files, and remove only their own
	maxOwner    = 4096                  // bytes of a lock file
	maxUUID     = 128                   // longer than "MIG-GPU-<uuid>/<gi>/<ci>"
)

// lockFile creates a device's lock file if necessary and returns its name. It must be a regular file, because in a
// directory that all users may write to, a link could lead elsewhere.
func lockFile(dir, uuid string) (string, error) {
	if uuid == "" || len(uuid) > maxUUID || strings.Trim(uuid, uuidLetters) != "" {
		return "", fmt.Errorf("claim %.40q: not the UUID of a device", uuid)
	}
	if err := os.Mkdir(dir, lockDirMode); err == nil {
		_ = os.Chmod(dir, lockDirMode) // undo the umask
	} else if !errors.Is(err, os.ErrExist) {
		return "", fault.TryAgain(fmt.Errorf("claim %s: %w; %s names another directory", short(uuid), err,
			ClaimsEnv))
	}
	name := lockName(dir, uuid)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, lockMode)
	if err == nil {
		_ = f.Chmod(lockMode)
		f.Close()
	} else if !errors.Is(err, os.ErrExist) {
		return "", fault.TryAgain(fmt.Errorf("claim %s: %w", short(uuid), err))
	}
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", fault.TryAgain(fmt.Errorf("claim %s: %s is not a file", short(uuid), name))
	}
	return name, nil
}

const uuidLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-/"

// sign writes the owner into the locked file. Errors are ignored, because the lock does not depend on the text.
// It opens the file inside the directory only, so a link that was created meanwhile cannot lead elsewhere.
func sign(name string, text []byte) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return
	}
	defer root.Close()
	_ = root.WriteFile(filepath.Base(name), text, lockMode)
}

// readOwner reads the owner from a lock file; it is empty if the owner has not written it.
func readOwner(name string) Owner {
	f, err := os.Open(name)
	if err != nil {
		return Owner{}
	}
	defer f.Close()
	var owner Owner
	if json.NewDecoder(io.LimitReader(f, maxOwner)).Decode(&owner) != nil {
		return Owner{}
	}
	return owner
}
