package stages

import "fmt"

// OptionError is an error about one option of a stage. It lets the caller report the option's line.
type OptionError struct {
	Key string
	Err error
	Fix string // what to do; "" if Err says it
}

// Errorf returns the OptionError of a key.
func Errorf(key, format string, args ...any) *OptionError {
	return &OptionError{Key: key, Err: fmt.Errorf(format, args...)}
}

// Error returns the text of Err.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }
