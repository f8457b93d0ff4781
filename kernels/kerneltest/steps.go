package kerneltest

import (
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels"
)

// testSteps: with 16-bit types, norms and rotations round after each step that is a separate module in PyTorch.
func testSteps(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range []kernels.DType{kernels.BF16, kernels.F16} {
		for _, kind := range []kernels.NormKind{kernels.LayerNorm, kernels.RMSNorm, kernels.GroupNorm} {
			t.Run(fmt.Sprint(dt, " norm ", kind), func(t *testing.T) {
				testNormSteps(newFixture(t, newBackend(2)), dt, kind)
			})
		}
		t.Run(fmt.Sprint(dt, " rope"), func(t *testing.T) { testRopeSteps(newFixture(t, newBackend(2)), dt) })
	}
}

// testNormSteps compares one call with separate calls for its steps.
func testNormSteps(f *fixture, dt kernels.DType, kind kernels.NormKind) {
	f.Helper()
	const n, h, w, c = 2, 3, 5, 40
	x := f.operand(dt, dense, f.random(dt, n, h, w, c))
	weight, bias := f.operand(dt, dense, f.random(dt, c)), f.operand(dt, dense, f.random(dt, c))
	scale, shift := f.random(dt, n, 1, 1, c), f.random(dt, n, 1, 1, c)
	wide := func(a array) kernels.Tensor { return f.operand(dt, dense, a).Expand(n, h, w, c) }
	base := kernels.NormSpec{Kind: kind, Eps: 1e-5, Groups: 4}
	run := func(spec kernels.NormSpec) []float64 {
		dst, read := f.result(dt, dense, n, h, w, c)
		f.Norm(dst, x, spec)
		return read().data
	}

	withWeight := base
	withWeight.Weight = weight
	if kind == kernels.RMSNorm {
		want := run(base)
		for i, v := range f.values(weight, n*h*w*c) {
			want[i] = float64(dt.Round(float32(want[i] * v)))
		}
		if !slices.Equal(run(withWeight), want) {
			f.Error("the value is not rounded before the weight")
		}
	} else {
		withWeight.Bias = bias
	}

	modulated := withWeight
	modulated.Scale, modulated.Shift = wide(scale), wide(shift)
	want := run(withWeight)
	for i := range want {
		at := i/(h*w*c)*c + i%c
		factor := dt.Round(float32(1 + scale.data[at]))
		product := dt.Round(float32(want[i]) * factor)
		want[i] = float64(dt.Round(product + float32(shift.data[at])))
	}
	if !slices.Equal(run(modulated), want) {
		f.Error("the steps of the modulation are not rounded one by one")
	}

	activated := modulated
	activated.Act = kernels.SiLU
	before, _ := f.result(dt, dense, n, h, w, c)
	f.Norm(before, x, modulated)
	after, read := f.result(dt, dense, n, h, w, c)
	f.Unary(after, before, kernels.SiLU)
	if !slices.Equal(run(activated), read().data) {
		f.Error("the value is not rounded before the activation")
	}
}

// values returns n values: the values of a vector, repeated.
func (f *fixture) values(vector kernels.Tensor, n int) []float64 {
	f.Helper()
	host := make([]float32, vector.Len())
	if err := f.Download(host, vector); err != nil {
		f.Fatal(err)
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(host[i%len(host)])
	}
	return out
}

func testRopeSteps(f *fixture, dt kernels.DType) {
	f.Helper()
	const b, l, h, d = 2, 5, 3, 22
	x, cos, sin := f.random(dt, b, l, h, d), f.random(dt, l, d/2), f.random(dt, l, d/2)
	wide := func(a array) kernels.Tensor {
		return f.operand(dt, dense, array{[]int{l, 1, d / 2}, a.data}).Expand(b, l, h, d/2)
	}
	dst, read := f.result(dt, dense, b, l, h, d)
	f.Rope(dst, f.operand(dt, dense, x), wide(cos), wide(sin))
	want := make([]float64, len(x.data))
	for i := 0; i < len(want); i += 2 {
		at := i/(h*d)%l*(d/2) + i%d/2
		product := func(a, b float64) float32 { return dt.Round(float32(a) * float32(b)) }
		even, odd, c, s := x.data[i], x.data[i+1], cos.data[at], sin.data[at]
		want[i] = float64(dt.Round(product(even, c) - product(odd, s)))
		want[i+1] = float64(dt.Round(product(odd, c) + product(even, s)))
	}
	if !slices.Equal(read().data, want) {
		f.Error("the products are not rounded before they are added")
	}
}
