// Package driver binds the CUDA driver: gorgonia.org/cu, found at run time, and the few calls that it lacks.
// Everything is behind the build tag cuda.
//
// gorgonia.org/cu is linked against libcuda.so.1, so a program that imports it does not start on a machine
// without a driver. Here every entry point that it refers to is a jump through a slot (tramp.S), which Open
// fills from the library it finds (loader.c). Until then calls answer CUDA_ERROR_NOT_INITIALIZED. Linking
// needs stub/libcuda.so, which answers cu's -lcuda with nothing, and a cuda.h: that of kernels/cuda/include
// or of a CUDA toolkit (`make -C kernels/cuda headers`).
//
// No tensor and no kernel enters. A call that cu lacks is a line in calls.c and a function in calls.go.
package driver
