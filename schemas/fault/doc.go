// Package fault names the places where the program may be killed (Point) and the kinds of error
// that decide what happens next (Class, ExitCode).
//
// The package holds no policy: callers decide how often to retry, what a failure row holds and when a job stops. A new fault
// point is one constant and one line of Names in points.go; a test fails for a point that is called but not listed, or listed
// but never called.
package fault
