//go:build cuda && linux

package cuda

import (
	"latentbeam/kernels/cuda/cublaslt"
	"latentbeam/kernels/cuda/nccl"
)

// Libraries returns the libraries that are looked for at run time, the most important first.
func Libraries() []Library {
	l := Library{Name: "libcuda.so.1", Without: "nothing runs on GPUs"}
	if o, err := open(); err != nil {
		l.Problem = err.Error()
	} else {
		l.Path = o.Path
	}
	lt := Library{Name: "libcublasLt.so", Without: "nothing by default: our own kernels compute products; " +
		EnvCublasLt + "=1 uses it for large products of 16-bit weights"}
	if found, err := cublaslt.Open(); err != nil {
		lt.Problem = err.Error()
	} else if lt.Path = found.Path; !wantsBlas() {
		lt.Problem = "not used without " + EnvCublasLt + "=1"
	}
	lib := Library{Name: "libnccl.so.2", Without: "GPUs of several hosts exchange over TCP, through host memory"}
	if found, err := nccl.Open(); err != nil {
		lib.Problem = err.Error()
	} else {
		lib.Path, lib.Version = found.Path, found.Version
	}
	return []Library{l, lt, lib}
}
