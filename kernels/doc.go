// Package kernels holds the nouns of the mathematics: DType, Tensor and Backend, and Group, the ranks that
// compute one batch together.
//
// It knows no model, no file format and no device; the engines live in kernels/cpu (and later
// kernels/cuda) and answer to the one suite in kernels/kerneltest. To add an operation, write the Go
// reference in kernels/cpu first, then a case in kernels/kerneltest; a new family is one method on
// Backend, anything else a field of an existing spec.
package kernels
