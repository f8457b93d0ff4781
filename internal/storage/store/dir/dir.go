package dir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gofrs/flock"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

const (
	dirMode  fs.FileMode = 0o755 // before the process's umask
	fileMode fs.FileMode = 0o644
)

// Dir is an output directory. Its methods are safe for concurrent use.
type Dir struct {
	path  string
	root  *os.Root
	run   string // random; distinguishes this run's temporary files from a dead run's
	temps atomic.Uint64
	trace func(Call) error
	look  bool // opened for reading only, without syncing

	guard   Guard // nil: the system's locks are valid for all hosts
	noFlock bool  // with a guard: use only the guard

	mu    sync.Mutex
	scope string          // derived from the held lock; part of every temporary name
	held  *flock.Flock    // nil without a lock
	known map[string]bool // directories whose own entry this run has synced
}

var _ store.Store = (*Dir)(nil)

// Open opens the directory at path. It creates the directory and its parents if they are missing.
func Open(path string) (*Dir, error) { return open(path, (*Dir).mkdirAbove) }

// OpenExisting opens the directory at path like Open, but creates nothing: if there is none, it returns fs.ErrNotExist.
func OpenExisting(path string) (*Dir, error) {
	return open(path, func(d *Dir, abs string) error {
		d.look = true
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("%w (%w); give the directory that output.path of a job names", fs.ErrNotExist, err)
		}
		return nil
	})
}

// open opens the directory at path after make has prepared it.
func open(path string, make func(d *Dir, abs string) error) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open output %q: %w", path, err)
	}
	d := &Dir{path: abs, run: randomHex(8), scope: noScope, known: map[string]bool{".": true}}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return nil, fault.Usage(fmt.Errorf("open output %s: it is a file; name a directory", abs))
	}
	switch err := make(d, abs); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open output %s: %w", abs, err)
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fault.Usage(fmt.Errorf("open output %s: a part of the path is a file; name a directory", abs))
	case errors.Is(err, syscall.ENAMETOOLONG):
		return nil, fault.Usage(fmt.Errorf("open output %s: %w; shorten the names in the path, most file systems take 255 bytes", abs, err))
	case isAny(err, denied):
		return nil, fault.Usage(fmt.Errorf("open output %s: %w; name a directory that this user may write to", abs, err))
	case err != nil:
		return nil, d.failed("create", "the output directory", err)
	}
	if d.root, err = os.OpenRoot(abs); isAny(err, denied) {
		return nil, fault.Usage(fmt.Errorf("open output %s: %w; name a directory that this user may write to", abs, err))
	} else if err != nil {
		return nil, d.failed("open", "the output directory", err)
	}
	return d, nil
}

// mkdirAbove creates abs and its missing parents, and syncs the directory above each new one.
func (d *Dir) mkdirAbove(abs string) error {
	if _, err := os.Stat(abs); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(abs)
	if err := d.mkdirAbove(parent); err != nil {
		return err
	}
	if err := os.Mkdir(abs, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncHandle(f)
}

// Path returns the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// URL returns Path.
func (d *Dir) URL() string { return d.path }

// Close releases the directory. Locks and open files stay valid.
func (d *Dir) Close() error { return d.root.Close() }

// ensureDir creates the directory name with its parents and returns the directories that must be synced so that it survives a
// power cut. The first use of a directory in a run always syncs its parent, because a killed run may have created it without
// syncing.
func (d *Dir) ensureDir(name string) (dirty []string, err error) {
	d.mu.Lock()
	known := d.known[name]
	d.mu.Unlock()
	if known {
		return nil, nil
	}
	parent := path.Dir(name)
	if dirty, err = d.ensureDir(parent); err != nil {
		return nil, err
	}
	if _, err := d.root.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if err := d.mkdir(name); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, d.failed("look up", name, err)
	}
	return append(dirty, parent), nil
}

func (d *Dir) mkdir(name string) error {
	err := d.about(Call{Op: OpMkdir, Name: name})
	if err == nil {
		err = d.root.Mkdir(name, dirMode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return d.failed("create directory", name, err)
	}
	return nil
}

// settled records that the entries of name and its parents are on disk.
func (d *Dir) settled(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; !d.known[name]; name = path.Dir(name) {
		d.known[name] = true
	}
}

// syncNames makes the names in a directory survive a power cut, whoever created them.
func (d *Dir) syncNames(name string) error {
	if d.look {
		return nil
	}
	dirty, err := d.ensureDir(name)
	if err != nil {
		return err
	}
	touched := map[string]bool{name: true}
	for _, parent := range dirty {
		touched[parent] = true
	}
	return d.syncDirs(touched)
}

func (d *Dir) syncDir(name string) error {
	if err := d.about(Call{Op: OpSyncDir, Name: name}); err != nil {
		return d.syncFailed(name, err)
	}
	f, err := d.root.Open(name)
	if err != nil {
		return d.failed("open directory", name, err)
	}
	defer f.Close()
	if err := syncHandle(f); err != nil {
		return d.syncFailed(name, err)
	}
	return nil
}

// syncHandle fsyncs an open directory. Windows has no such call and does not need one, because it logs renames.
func syncHandle(f *os.File) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return f.Sync()
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails since Go 1.24
	return hex.EncodeToString(b)
}
