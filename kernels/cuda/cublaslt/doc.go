// Package cublaslt multiplies 16-bit matrices with NVIDIA's cublasLt, which it finds at run time. It needs no header, because the part
// of the interface in lt.c is the same from CUDA 11 to 13. It needs the build tag cuda.
//
// It chooses an algorithm once for the shape of a weight, one that does not split sums, and uses it for any number of rows. So the
// result of a row should not depend on the number of rows. NVIDIA does not document whether that holds, so kernels/cuda uses this
// package only on request and adds it to the numeric class. It was compiled, and tested with a stand-in; it was not run on a GPU
// yet.
package cublaslt
