// Package kernels defines the mathematical types: DType, Tensor and Backend, and Group, the ranks that compute one batch
// together.
//
// It knows no model, no file format and no device. The engines are in kernels/cpu and kernels/cuda; both must pass the test
// suite in kernels/kerneltest. To add an operation, write the Go reference in kernels/cpu first, then a case in
// kernels/kerneltest. A new family is one method of Backend; anything else is a field of an existing spec.
package kernels
