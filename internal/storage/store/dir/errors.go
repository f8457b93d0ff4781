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

// full are the errors of a file system without space. passing are other errors that may be gone at the next run.
var (
	full    = []error{syscall.ENOSPC, syscall.EDQUOT}
	passing = []error{
		syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.ETIMEDOUT, syscall.ESTALE, syscall.EBUSY, syscall.EAGAIN, syscall.ENOLCK,
	}
)

// denied are the errors for a path that this user may not use. During a job they may pass; before it they do not.
var denied = []error{syscall.EACCES, syscall.EPERM, syscall.EROFS}

func isAny(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
}

// removed reports whether the path no longer leads to the directory.
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

// failed returns an error with the step, the file and the directory of a failed file-system call. A temporary problem stops the
// run with "try again" (exit 75), any other error is fatal.
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
		"to start over", verb, name, d.path, store.ErrRemoved))
}

// found returns an error if what was written is not below the path of the directory: the system silently continues to write in
// a directory that was moved.
func (d *Dir) found(verb, name string) error {
	if d.removed() {
		return d.gone(verb, name)
	}
	return nil
}

// syncFailed returns the error of a failed fsync. The kernel may have dropped the pages and marked them clean, so a second
// fsync of the same file could succeed wrongly (Rebello et al., ATC 2020). It must not be retried.
func (d *Dir) syncFailed(name string, err error) error {
	if isAny(err, full) {
		return d.failed("fsync", name, err)
	}
	return fault.Fatal(fmt.Errorf("fsync %s in %s: %w; its bytes may not be on disk, check the disk "+
		"before running again", name, d.path, err))
}
