package nn

import (
	"math"
	"runtime"
	"sync"

	"latentbeam/kernels"
)

// GELU replaces x by x (1 + erf(x / sqrt 2)) / 2 in fp64, rounded once: the exact form, which backends have no operation
// for. The host computes it; the few networks that need it have few tokens.
func GELU(be kernels.Backend, x kernels.Tensor) {
	values := make([]float32, x.Len())
	if err := be.Download(values, x); err != nil {
		return // the backend reports it again to whoever waits for the result
	}
	var wait sync.WaitGroup
	ways := runtime.GOMAXPROCS(0)
	for i := range ways {
		wait.Go(func() {
			some := values[len(values)*i/ways : len(values)*(i+1)/ways]
			for j, v := range some {
				some[j] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
			}
		})
	}
	wait.Wait()
	be.Upload(x, values)
}
