package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// full are the errors of a file system without room, passing those that may be gone at the next
// run for another reason.
var (
	full    = []error{syscall.ENOSPC, syscall.EDQUOT}
	passing = []error{
		syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.ETIMEDOUT, syscall.ESTALE, syscall.EBUSY, syscall.EAGAIN, syscall.ENOLCK,
	}
)

// denied are the errors of a path that this user may not use. While a job runs they may pass, before it they do not.
var denied = []error{syscall.EACCES, syscall.EPERM, syscall.EROFS}

func isAny(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
}

// removed reports whether the path of the directory leads to it no more.
func (d *Dir) removed() bool {
	if d.root == nil {
		return false
	}
	there, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	own, ownErr := d.root.Stat(".")
	return err == nil && ownErr == nil && !os.SameFile(there, own)
}

// failed names the step, the file and the directory of a failed file-system call, and classes it:
// what may pass stops the run with "try again" (exit 75), everything else is fatal.
func (d *Dir) failed(verb, name string, err error) error {
	cause := err
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		cause = pathError.Err
	}
	wrapped := fmt.Errorf("%s %s in %s: %w", verb, name, d.path, cause)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return wrapped
	case isAny(err, full):
		return fault.TryAgain(fmt.Errorf("%w; make room and run again, finished work is kept", wrapped))
	case isAny(err, passing):
		return fault.TryAgain(fmt.Errorf("%w; repair it and run again, finished work is kept", wrapped))
	case errors.Is(err, fs.ErrNotExist) && d.removed():
		return d.gone(verb, name)
	}
	return fault.Fatal(wrapped)
}

func (d *Dir) gone(verb, name string) error {
	return fault.Fatal(fmt.Errorf("%s %s in %s: %w; put it back and run again to keep its finished work, or run again "+
		"to begin anew", verb, name, d.path, store.ErrRemoved))
}

// found is an error where what was written is not below the path of the directory: writing goes on without a word in
// one that was moved.
func (d *Dir) found(verb, name string) error {
	if d.removed() {
		return d.gone(verb, name)
	}
	return nil
}

// syncFailed classes a failed fsync. The kernel may have dropped the pages and marked them clean,
// so a second fsync of the same file would lie (Rebello et al., ATC 2020): nobody may retry it.
func (d *Dir) syncFailed(name string, err error) error {
	if isAny(err, full) {
		return d.failed("fsync", name, err)
	}
	return fault.Fatal(fmt.Errorf("fsync %s in %s: %w; its bytes may not be on disk, check the disk "+
		"before running again", name, d.path, err))
}
