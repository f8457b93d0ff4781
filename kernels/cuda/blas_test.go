//go:build cuda && linux

package cuda_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
)

// TestCublasLt: with cublasLt, a row has the same bits alone and among others, in every memory layout, and the numeric class has a name of its
// own. The test runs in another process, because a process opens libraries only once.
func TestCublasLt(t *testing.T) {
	device(t, 0)
	if os.Getenv(cuda.EnvCublasLt) == "1" {
		if class := device(t, 0).Class(); !strings.Contains(class, "+cublaslt-") {
			t.Errorf("the class is %s, want one with +cublaslt-", class)
		}
		for _, dt := range []kernels.DType{kernels.BF16, kernels.F16} {
			for parts := range 16 {
				testBlas(t, device(t, 0), dt, parts)
			}
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCublasLt$", "-test.v")
	cmd.Env = append(os.Environ(), cuda.EnvCublasLt+"=1")
	if lib := os.Getenv("LATENTBEAM_LIBCUDA"); lib != "" {
		cmd.Env = append(cmd.Env, "LATENTBEAM_LIBCUBLASLT="+lib) // the fake driver is also a fake cublasLt
	}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "cublasLt is not found") {
		t.Skip("there is no cublasLt")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// testBlas computes a linear layer by cublasLt. The bits 0 to 3 of parts say whether its epilogue has bias, activation, gate and residual. It
// compares the result with other layouts, with a single row, and with products of 16 columns, which are too small for cublasLt, so that our
// kernels compute them.
func testBlas(t *testing.T, b kernels.Backend, dt kernels.DType, parts int) {
	defer b.Scope()()
	const m, n, k = 21, 256, 264
	fill := func(shape ...int) kernels.Tensor {
		x := b.Alloc(dt, shape...)
		values := make([]float32, x.Len())
		for i := range values {
			values[i] = float32((i*7919)%253-126) / 256
		}
		b.Upload(x, values)
		return x
	}
	x, w, bias, gate, residual := fill(m, k), fill(n, k), fill(n), fill(1, n).Expand(m, n), fill(m, n)
	// compute computes the columns from up to to.
	compute := func(dst, x, w, residual kernels.Tensor, from, to int) {
		var ep kernels.Epilogue
		if parts&1 != 0 {
			ep.Bias = bias.Narrow(0, from, to-from)
		}
		if parts&2 != 0 {
			ep.Act = kernels.SiLU
		}
		if parts&4 != 0 {
			ep.Gate = gate.Narrow(1, from, to-from).Narrow(0, 0, dst.Dim(0))
		}
		if parts&8 != 0 {
			ep.Residual = residual
		}
		b.Linear(dst, x, w, ep)
	}
	read := func(x kernels.Tensor) []float32 {
		t.Helper()
		out := make([]float32, x.Len())
		if err := b.Download(out, x); err != nil {
			t.Fatal(err)
		}
		return out
	}
	name := fmt.Sprint(dt, " parts ", parts)
	whole := b.Alloc(dt, m, n)
	compute(whole, x, w, residual, 0, n)
	want := read(whole)

	onto := b.Alloc(dt, m, n) // x has other strides, and the result overwrites the residual
	b.Copy(onto, residual)
	columns := b.Alloc(dt, k, m).Permute(1, 0)
	b.Copy(columns, x)
	compute(onto, columns, w, onto, 0, n)
	if !slices.Equal(read(onto), want) {
		t.Errorf("%s: other bits with other layouts", name)
	}
	compute(whole.Narrow(0, 5, 1), x.Narrow(0, 5, 1), w, residual.Narrow(0, 5, 1), 0, n)
	if !slices.Equal(read(whole), want) {
		t.Errorf("%s: other bits of a row alone", name)
	}
	for from := 0; from < n; from += 16 { // by our kernels
		compute(whole.Narrow(1, from, 16), x, w.Narrow(0, from, 16), residual.Narrow(1, from, 16), from, from+16)
	}
	tolerance := map[kernels.DType]float32{kernels.BF16: 0.05, kernels.F16: 0.01}[dt]
	for i, v := range read(whole) {
		if d := v - want[i]; !(d < tolerance && d > -tolerance) {
			t.Fatalf("%s: element %d is %v by cublasLt, %v by our kernel", name, i, want[i], v)
		}
	}
}
