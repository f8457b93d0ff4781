package cpu

import (
	"testing"

	"latentbeam/kernels"
)

// TestProductsAllocateNothing: products and convolutions allocate no Go memory after the scratch memory was allocated once.
func TestProductsAllocateNothing(t *testing.T) {
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		b := New(2)
		weight := func(shape ...int) kernels.Tensor {
			n, err := elements(shape)
			if err != nil {
				t.Fatal(err)
			}
			w, err := b.Weights(dt, shape, make([]byte, n*dt.Size()))
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		x, y, gate := filled(b, dt, 40, 128), filled(b, dt, 40, 96), filled(b, dt, 1, 96).Expand(40, 96)
		w, bias := weight(96, 128), weight(96)
		video, out := filled(b, dt, 2, 3, 8, 8, 16), filled(b, dt, 2, 3, 8, 8, 24)
		kernel, point := weight(24, 16, 3, 3, 3), weight(24, 16, 1, 1, 1)
		same := kernels.ConvSpec{Front: 2, Top: 1, Left: 1, Bottom: 1, Right: 1}
		for name, f := range map[string]func(){
			"linear": func() { b.Linear(y, x, w, kernels.Epilogue{}) },
			"linear with everything": func() {
				b.Linear(y, x, w, kernels.Epilogue{Bias: bias, Act: kernels.GELUTanh, Gate: gate, Residual: y})
			},
			"strided linear": func() {
				b.Linear(y.Narrow(1, 3, 64), x.Narrow(1, 1, 99), w.Narrow(0, 2, 64).Narrow(1, 5, 99), kernels.Epilogue{})
			},
			"conv":           func() { b.Conv(out, video, kernel, same) },
			"pointwise conv": func() { b.Conv(out, video, point, kernels.ConvSpec{}) },
		} {
			f()
			views := 0.0
			if name == "strided linear" {
				views = 4 // the test itself allocates the shapes of four of its views
			}
			if n := testing.AllocsPerRun(20, f); n > views {
				t.Errorf("%v %s: %v allocations per call, want %v", dt, name, n, views)
			}
		}
		if err := b.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
