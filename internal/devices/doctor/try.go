package doctor

import (
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/cuda"
)

// try multiplies two small matrices on a GPU and compares the result with the CPU's.
func try(index int) error {
	be, err := cuda.New(index, cuda.Options{})
	if err != nil {
		return err
	}
	got, err := product(be)
	if err != nil {
		return err
	}
	want, err := product(cpu.New(1))
	if err != nil {
		return err
	}
	return compare(got, want)
}

// product returns the product of two small matrices on a backend.
func product(be kernels.Backend) ([]float32, error) {
	const n = 64
	defer be.Scope()()
	x, w, y := be.Alloc(kernels.F32, n, n), be.Alloc(kernels.F32, n, n), be.Alloc(kernels.F32, n, n)
	a, b := make([]float32, n*n), make([]float32, n*n)
	for i := range a {
		a[i], b[i] = float32(i%13)/13, float32(i%7)/7-0.5
	}
	be.Upload(x, a)
	be.Upload(w, b)
	be.Linear(y, x, w, kernels.Epilogue{})
	out := make([]float32, n*n)
	err := be.Download(out, y)
	return out, err
}

// compare returns an error for the first number that differs from the CPU's.
func compare(got, want []float32) error {
	for i, v := range want {
		if d := math.Abs(float64(got[i] - v)); !(d <= 1e-2*(1+math.Abs(float64(v)))) {
			return fmt.Errorf("number %d of a product is %g, the CPU has %g", i, got[i], v)
		}
	}
	return nil
}
