// Package driver binds the CUDA driver: gorgonia.org/cu, found at run time, and the few calls that it lacks.
// Everything is behind the build tag cuda.
//
// gorgonia.org/cu is linked with libcuda.so.1, so a program that imports it would not start on a machine without a driver. Therefore
// this package defines every entry point that cu uses as a jump through a slot (tramp.S). Open fills the slots from the library that
// it finds (loader.c). Before that, calls return CUDA_ERROR_NOT_INITIALIZED. Linking needs stub/libcuda.so, an empty library for the
// flag -lcuda of cu, and a cuda.h from kernels/cuda/include or a CUDA toolkit (`make -C kernels/cuda headers`).
//
// The package knows no tensors and no kernels. For a call that cu lacks, add a line to calls.c and a function to calls.go.
package driver
