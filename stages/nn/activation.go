package nn

import (
	"math"
	"runtime"
	"sync"

	"latentbeam/kernels"
)

// GELU replaces x by x (1 + erf(x / sqrt 2)) / 2 in fp64, rounded once: the exact form. Backends do not implement it, so the
// host computes it; the few networks that need it have few tokens.
func GELU(be kernels.Backend, x kernels.Tensor) {
	onHost(be, x, func(v float32) float32 { return float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2))) })
}

// ReLU replaces x by max(x, 0), on the host if the device does not implement it.
func ReLU(be kernels.Backend, x kernels.Tensor) {
	if be.Capabilities().ReLU {
		be.Unary(x, x, kernels.ReLU)
		return
	}
	onHost(be, x, func(v float32) float32 { return max(v, 0) })
}

// Tanh replaces x by its hyperbolic tangent, on the host if the device does not implement it.
func Tanh(be kernels.Backend, x kernels.Tensor) {
	if be.Capabilities().ReLU {
		be.Unary(x, x, kernels.Tanh)
		return
	}
	onHost(be, x, func(v float32) float32 { return float32(math.Tanh(float64(v))) })
}

// QuickGELU replaces x by x sigmoid(1.702 x). Every intermediate result is rounded to the type of x.
func QuickGELU(be kernels.Backend, x kernels.Tensor) {
	defer be.Scope()()
	factor := be.Alloc(kernels.F32, 1)
	be.Upload(factor, []float32{1.702})
	gate := be.Alloc(x.DType, x.Len())
	flat := x.Reshape(x.Len())
	be.Binary(gate, flat, factor.Expand(x.Len()), kernels.Mul)
	be.Unary(gate, gate, kernels.Sigmoid)
	be.Binary(flat, flat, gate, kernels.Mul)
}

// PReLU replaces x (..., C) by max(x, 0) + slopes min(x, 0), slopes (C), on the host, because backends do not implement it.
func PReLU(be kernels.Backend, x, slopes kernels.Tensor) {
	factors := make([]float32, slopes.Len())
	if be.Download(factors, slopes) != nil {
		return // the backend reports the error again at the next wait
	}
	rowsOnHost(be, x, func(row []float32) {
		for c, v := range row {
			if v < 0 {
				row[c] = factors[c] * v
			}
		}
	})
}

// LeakyReLU replaces x by max(x, 0) + slope min(x, 0), on the host.
func LeakyReLU(be kernels.Backend, x kernels.Tensor, slope float32) {
	onHost(be, x, func(v float32) float32 {
		if v < 0 {
			return slope * v
		}
		return v
	})
}

// onHost replaces x by f(x).
func onHost(be kernels.Backend, x kernels.Tensor, f func(v float32) float32) {
	rowsOnHost(be, x, func(row []float32) {
		for j, v := range row {
			row[j] = f(v)
		}
	})
}

// rowsOnHost downloads x (..., C), calls do for each row, which it may modify, and uploads x again.
func rowsOnHost(be kernels.Backend, x kernels.Tensor, do func(row []float32)) {
	if Rehearses(be) { // only the calls are counted, there are no values
		_ = be.Download(nil, x)
		be.Upload(x, nil)
		return
	}
	values := make([]float32, x.Len())
	if err := be.Download(values, x); err != nil {
		return // the backend reports the error again at the next wait
	}
	c := x.Dim(len(x.Shape) - 1)
	rows := len(values) / max(1, c)
	var wait sync.WaitGroup
	ways := runtime.GOMAXPROCS(0)
	for i := range ways {
		wait.Go(func() {
			for r := rows * i / ways; r < rows*(i+1)/ways; r++ {
				do(values[r*c:][:c])
			}
		})
	}
	wait.Wait()
	be.Upload(x, values)
}
