//go:build cuda && linux

package cuda

import "latentbeam/kernels/cuda/cublaslt"

// Libraries returns what is looked for at run time, in the order of importance.
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
		lt.Problem = "found, not used without " + EnvCublasLt + "=1"
	}
	return []Library{l, lt}
}
