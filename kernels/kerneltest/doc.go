// Package kerneltest is the suite every backend must pass, and Deferred, a backend that is as late and as
// unforgiving as a device. Results are compared with a naive float64 reference written here; it imports
// no backend.
//
// To add an operation or a field of a spec: its reference in reference.go, a case in the file of its
// family, its row independence in bits.go and its wrong operands in mistakes.go.
package kerneltest
