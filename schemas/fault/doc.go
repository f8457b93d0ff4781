// Package fault names the places where the program may be killed (Point) and the kinds of error
// that decide what happens next (Class, ExitCode).
//
// What never enters: policy. How often to retry, what a failure row holds and when a job stops
// belong to the callers. A new fault point is one constant and one line of Names in points.go;
// a test fails for a point that is called but not listed, or listed but never called.
package fault
