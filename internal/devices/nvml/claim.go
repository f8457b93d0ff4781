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

// Owner is who has claimed a device, as the lock file says.
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

// ClaimsEnv names the directory of lock files in the environment, for hosts with another one that all
// processes share (containers that see the same devices).
const ClaimsEnv = "LATENTBEAM_RUNTIME_DIR"

// ClaimsDir returns the directory in which all processes of this host meet: that of the environment, else
// one in /run/lock, which every user can write to, else in the directory of temporary files.
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

// Claim takes a device for this process until release, without waiting; *BusyError where another has it. The
// kernel releases the claim when the process dies, however it does. The file stays: removing it would let two
// processes lock two files of one name.
func Claim(dir, uuid, what string) (release func(), err error) {
	name, err := lockFile(dir, uuid)
	if err != nil {
		return nil, err
	}
	// The file may be another user's: flock takes no more than to read it.
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

// Holder returns who has claimed a device, nil where nobody has as far as can be seen. Nothing is claimed to find out.
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
	lockDirMode = 0o777 | os.ModeSticky // any user may add files, and remove none of others
	maxOwner    = 4096                  // bytes of a lock file
	maxUUID     = 128                   // longer than "MIG-GPU-<uuid>/<gi>/<ci>"
)

// lockFile returns the name of a device's lock file, which is there then. It must be a file: in a directory
// that all may write to, a link could lead elsewhere.
func lockFile(dir, uuid string) (string, error) {
	if uuid == "" || len(uuid) > maxUUID || strings.Trim(uuid, uuidLetters) != "" {
		return "", fmt.Errorf("claim %.40q: not the UUID of a device", uuid)
	}
	if err := os.Mkdir(dir, lockDirMode); err == nil {
		_ = os.Chmod(dir, lockDirMode) // what the umask took away
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

// sign writes who has the lock into the locked file, as far as this user may: the lock does not depend on it.
// A link that was put there meanwhile leads nowhere else than into the directory.
func sign(name string, text []byte) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return
	}
	defer root.Close()
	_ = root.WriteFile(filepath.Base(name), text, lockMode)
}

// readOwner reads what the owner has written; nothing where it had no time to, or could not.
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
