package fault

import (
	"context"
	"errors"
)

// Class says who has to act on an error, and so what the job does next (design decision D8).
type Class int

const (
	// ClassRow says that this element cannot be done. It goes to the failures table and the job goes on.
	ClassRow Class = iota
	// ClassRetry says that something outside of the job failed (503, out of memory, device lost). The element is tried again, a
	// limited number of times.
	ClassRetry
	// ClassFatal says that the job is wrong or cannot go on. It stops cleanly and can be resumed.
	ClassFatal
	// ClassDropped says that a rule of the job removed the element. It is listed in the failures table but does not count as a
	// failure.
	ClassDropped Class = -1
)

// String returns the word that the failures table contains.
func (c Class) String() string {
	switch c {
	case ClassRow:
		return "row"
	case ClassRetry:
		return "retry"
	case ClassFatal:
		return "fatal"
	case ClassDropped:
		return "dropped"
	}
	return "unknown"
}

// Exit codes of the command line.
const (
	ExitDone        = 0   // every row is done
	ExitFailures    = 1   // the job is done, failed rows remain
	ExitUsage       = 2   // wrong command line or configuration, or an infeasible job
	ExitFatal       = 3   // the job stopped at run time
	ExitTryAgain    = 75  // run me again: disk full, no device, output in use (EX_TEMPFAIL)
	ExitInterrupted = 130 // SIGINT or SIGTERM, after draining
)

// classified is an error with a class. If exit is not 0, it also sets the exit code.
type classified struct {
	error
	class Class
	exit  int
}

func (e *classified) Unwrap() error { return e.error }

func wrap(err error, class Class, exit int) error {
	if err == nil {
		return nil
	}
	return &classified{err, class, exit}
}

// Row marks err as the fault of one element; nil stays nil. The message is unchanged.
func Row(err error) error { return wrap(err, ClassRow, 0) }

// Dropped marks err as the rule of the job that removed one element; nil stays nil.
func Dropped(err error) error { return wrap(err, ClassDropped, 0) }

// Retry marks err as a failure outside of the job that may pass; nil stays nil.
func Retry(err error) error { return wrap(err, ClassRetry, 0) }

// Fatal marks err as an error that stops the job (exit 3); nil stays nil.
func Fatal(err error) error { return wrap(err, ClassFatal, ExitFatal) }

// Usage marks err as a wrong command line or configuration, or an infeasible job: fatal, exit 2.
func Usage(err error) error { return wrap(err, ClassFatal, ExitUsage) }

// TryAgain marks err as a reason to stop this run that may be gone at the next run (a full disk, an output in use): fatal, exit
// 75. Unlike Retry, it does not try the element again in this run.
func TryAgain(err error) error { return wrap(err, ClassFatal, ExitTryAgain) }

// Failures marks err as the report of a job that is done except for some failed rows: exit 1.
func Failures(err error) error { return wrap(err, ClassRow, ExitFailures) }

// ClassOf returns the class of the outermost wrapper of err, and for joined errors the most severe class. Without a wrapper, a
// cancelled context is fatal (Ctrl-C is not the fault of a row), an exceeded deadline is a retry, and any other error is the
// fault of a row.
func ClassOf(err error) Class {
	if c := find(err); c != nil {
		return c.class
	}
	if errors.Is(err, context.Canceled) {
		return ClassFatal
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ClassRetry
	}
	return ClassRow
}

// ExitCode returns the exit code of a program that ends with err. Without a wrapper, context.Canceled is an interrupt and any
// other error is fatal.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	c := find(err)
	switch {
	case c != nil && c.exit != 0:
		return c.exit
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case ClassOf(err) == ClassRetry:
		return ExitTryAgain
	}
	return ExitFatal
}

// find returns the wrapper that decides the class of err: the outermost one, or the most severe one of joined errors.
func find(err error) *classified {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *classified:
		return e
	case interface{ Unwrap() error }:
		return find(e.Unwrap())
	case interface{ Unwrap() []error }:
		var worst *classified
		for _, one := range e.Unwrap() {
			if c := find(one); c != nil && (worst == nil || c.class > worst.class) {
				worst = c
			}
		}
		return worst
	}
	return nil
}
