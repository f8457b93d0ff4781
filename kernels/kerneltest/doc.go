// Package kerneltest is the suite that every backend must pass. It also has Deferred, a backend that runs as late and checks as
// strictly as a device. The suite compares results with a simple float64 reference in this package; it imports no backend.
//
// For a new operation or a new field of a spec, add its reference to reference.go, a case to the file of its family, a
// workload to bits.go, which tests that rows are independent, and wrong operands to mistakes.go.
package kerneltest
