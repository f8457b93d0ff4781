// Package cublaslt runs products of 16-bit matrices through NVIDIA's cublasLt, found at run time. It needs no
// header: what is used of the interface (lt.c) is the same from CUDA 11 to 13. Behind the build tag cuda.
//
// An algorithm is chosen once for a weight's shape, one that adds without splitting the sum, and is used for any
// number of rows after that: so a row ought not to depend on how many there are. Whether that holds is NVIDIA's
// to say and not documented, so kernels/cuda uses this package only when it is told to, and names it in the
// numeric class. It was compiled, and run against a stand-in; on a GPU it was not run yet.
package cublaslt
