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
	lt := Library{Name: "libcublasLt.so", Without: "nothing by default: products are those of our own kernels; " +
		EnvCublasLt + "=1 uses it for large products of 16-bit weights"}
	if found, err := cublaslt.Open(); err != nil {
		lt.Problem = err.Error()
	} else if lt.Path = found.Path; !wantsBlas() {
		lt.Problem = "not used without " + EnvCublasLt + "=1"
	}
	between := Library{Name: "libnccl.so.2", Without: "GPUs of several hosts exchange over TCP, through host memory"}
	if found, err := nccl.Open(); err != nil {
		between.Problem = err.Error()
	} else {
		between.Path, between.Version = found.Path, found.Version
	}
	return []Library{l, lt, between}
}
