package store

import (
	"errors"
	"fmt"
)

// Errors that errors.Is finds.
var (
	// ErrConflict is what a *ConflictError is.
	ErrConflict = errors.New("a different file is already there")
	// ErrRemoved says that the output is not there any more, or another one in its place.
	ErrRemoved = errors.New("the output directory was removed, moved or replaced while it was in use")
	// ErrChanged says that an object is not the one that was opened any more.
	ErrChanged = errors.New("the file was replaced or removed while it was read")
	// ErrLost says that another process may have taken over the lock of this one.
	ErrLost = errors.New("the lock on the output was lost")
)

// ConflictError says that Put found other bytes under a name that is written only once. Put returns it as it is, several
// by errors.Join, without a class around them: Conflicts takes them apart.
type ConflictError struct {
	Name               string
	HaveSize, WantSize int64  // bytes that are there and bytes that were to be published
	HaveSHA, WantSHA   string // SHA-256 of both, in hex
}

// Error names the object and what differs.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("publish %s: %v: on disk %d bytes, sha256 %s; now %d bytes, sha256 %s; "+
		"remove the file or choose another output",
		e.Name, ErrConflict, e.HaveSize, e.HaveSHA, e.WantSize, e.WantSHA)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Conflicts takes an error of Put apart: the conflicts, and where Put failed for another reason that error.
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
