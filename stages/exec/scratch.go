package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"latentbeam/internal/system"
)

const (
	memoryDir     = "/dev/shm" // files in memory, on Linux
	scratchPrefix = "latentbeam-exec-"
	lockName      = "lock"
	minFree       = 1 << 30     // free bytes that memoryDir must have
	freshScratch  = time.Minute // a younger scratch directory may not have its lock yet
)

// scratch is a directory of one stage in one process. Its lock shows other processes that this process is alive.
type scratch struct {
	dir  string
	lock *flock.Flock
}

// newScratch creates the directory in parent, or in memory if there is room, and removes the directories of dead processes
// there.
func newScratch(parent string) (*scratch, error) {
	if parent == "" {
		parent = os.TempDir()
		if free, _ := system.FreeBytes(memoryDir); free >= minFree {
			parent = memoryDir
		}
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	s := &scratch{dir, flock.New(filepath.Join(dir, lockName))}
	if _, err := s.lock.TryLock(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// remove removes the directory.
func (s *scratch) remove() error { return errors.Join(os.RemoveAll(s.dir), s.lock.Unlock()) }

// sweep removes scratch directories of dead processes.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < freshScratch {
			continue
		}
		lock := flock.New(filepath.Join(dir, lockName))
		if free, err := lock.TryLock(); err == nil && free {
			_ = os.RemoveAll(dir) // it may belong to another user
			_ = lock.Unlock()
		}
	}
}

// inside returns the real path of a file that an answer names. It must be in dir, be a regular file and fit into memory:
// reading a FIFO could block forever, and a sparse file of terabytes costs its author nothing.
func inside(dir, path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("the file %s is not there", filepath.Base(path))
	}
	if !strings.HasPrefix(resolved, dir+string(filepath.Separator)) {
		return "", fmt.Errorf("the file %s lies outside of the scratch directory of the batch", filepath.Base(path))
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return "", fmt.Errorf("the file %s is not there", filepath.Base(path))
	}
	if kind := system.FileKind(info.Mode()); kind != "" {
		return "", fmt.Errorf("the file %s is %s: a result is an ordinary file; of several images make one y4m or mp4",
			filepath.Base(path), kind)
	}
	if info.Size() > maxMedia {
		return "", fmt.Errorf("the file %s has %d bytes: a result has at most %d", filepath.Base(path), info.Size(), maxMedia)
	}
	return resolved, nil
}
