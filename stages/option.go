package stages

import "fmt"

// OptionError is an error about one option of a stage, so that it can be reported with its line.
type OptionError struct {
	Key string
	Err error
	Fix string // what to do about it, "" where the error says it
}

// Errorf returns the OptionError of a key.
func Errorf(key, format string, args ...any) *OptionError {
	return &OptionError{Key: key, Err: fmt.Errorf(format, args...)}
}

// Error is that of the error.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap returns it.
func (e *OptionError) Unwrap() error { return e.Err }
