package store

import (
	"errors"
	"fmt"
)

// Errors that errors.Is finds.
var (
	// ErrConflict matches every *ConflictError.
	ErrConflict = errors.New("a different file is already there")
	// ErrRemoved says that the output does not exist any more, or was replaced by another one.
	ErrRemoved = errors.New("the output directory was removed, moved or replaced while it was in use")
	// ErrChanged says that an object was replaced or removed since it was opened.
	ErrChanged = errors.New("the file was replaced or removed while it was read")
	// ErrLost says that another process may have taken over this process's lock.
	ErrLost = errors.New("the lock on the output was lost")
)

// ConflictError says that Put found different bytes under a name that may be written only once. Put returns it directly,
// several with errors.Join, without a class: Conflicts separates them.
type ConflictError struct {
	Name               string
	HaveSize, WantSize int64  // size of the existing object, and of the object to publish
	HaveSHA, WantSHA   string // SHA-256 of both, in hex
}

// Error names the object and the difference.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("publish %s: %v: on disk %d bytes, sha256 %s; now %d bytes, sha256 %s; "+
		"remove the file or choose another output",
		e.Name, ErrConflict, e.HaveSize, e.HaveSHA, e.WantSize, e.WantSHA)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Conflicts separates an error of Put into the conflicts and, if Put also failed for another reason, that error.
func Conflicts(err error) ([]*ConflictError, error) {
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	var conflicts []*ConflictError
	for _, part := range parts {
		var conflict *ConflictError
		if !errors.As(part, &conflict) {
			return nil, err
		}
		conflicts = append(conflicts, conflict)
	}
	return conflicts, nil
}
