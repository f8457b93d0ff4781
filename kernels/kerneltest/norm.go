package kerneltest

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// testNorm tests the three norms with every combination of their optional operands.
func testNorm(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, kind := range []kernels.NormKind{kernels.LayerNorm, kernels.RMSNorm, kernels.GroupNorm} {
		for _, l := range layouts {
			t.Run(fmt.Sprint("kind ", kind, " ", l), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for parts := range 8 {
					f.norm(kernels.F32, l, kind, [4]int{2, 5, 17, 12}, parts, kernels.UnaryOp(parts%3), 0)
				}
				for _, dt := range dtypes {
					f.norm(dt, l, kind, [4]int{1, 3, 1, 36}, 0, kernels.Identity, 0)
				}
				for _, shape := range [][4]int{{1, 1, 1, 4}, {3, 1, 2, 4}, {0, 2, 2, 4}, {2, 0, 3, 4}, {1, 40, 40, 8}} {
					f.norm(kernels.F32, l, kind, shape, 7, kernels.SiLU, 0)
				}
				f.norm(kernels.F32, l, kind, [4]int{2, 9, 9, 60}, 0, kernels.Identity, 1000)
			})
		}
	}
}

// norm computes one case. The bits of parts choose weight, bias and modulation. mean is added to x: a variance that is computed as
// a difference of large fp32 numbers would be wrong.
func (f *fixture) norm(
	dt kernels.DType, l layout, kind kernels.NormKind, shape [4]int, parts int, act kernels.UnaryOp,
	mean float64,
) {
	f.Helper()
	x := f.random(dt, shape[:]...)
	for i := range x.data {
		x.data[i] = float64(float32(x.data[i] + mean))
	}
	c := shape[3]
	weight, bias := f.random(kernels.F32, c), f.random(kernels.F32, c)
	scale, shift := f.random(kernels.F32, shape[0], 1, 1, c), f.random(kernels.F32, shape[0], 1, 1, c)
	spec := kernels.NormSpec{Kind: kind, Eps: 1e-5, Groups: 4, Act: act}
	want := array{x.shape, append([]float64(nil), x.data...)}
	norm(want, kind, 4, 1e-5)
	if parts&1 != 0 {
		spec.Weight = f.operand(kernels.F32, l, weight)
	}
	if parts&2 != 0 {
		spec.Bias = f.operand(kernels.F32, l, bias)
	}
	if parts&4 != 0 {
		spec.Scale = f.operand(kernels.F32, l, scale).Expand(shape[:]...)
		spec.Shift = f.operand(kernels.F32, l, shift).Expand(shape[:]...)
	}
	for i, v := range want.data {
		if parts&1 != 0 {
			v *= weight.data[i%c]
		}
		if parts&2 != 0 {
			v += bias.data[i%c]
		}
		if parts&4 != 0 {
			at := i/(shape[1]*shape[2]*c)*c + i%c
			v = v*(1+scale.data[at]) + shift.data[at]
		}
		want.data[i] = unary(act, v)
	}
	name := fmt.Sprintf("%v, parts %d, act %d, mean %v", shape, parts, act, mean)
	loose := dt
	if mean != 0 {
		loose = kernels.F16 // values near 1000 have fp32 errors of 1e-4
	}
	dst, read := f.result(dt, dense, shape[:]...)
	f.Norm(dst, f.operand(dt, l, x), spec)
	f.check(name, loose, read(), want)
	same, read := f.result(dt, l, shape[:]...)
	f.Copy(same, f.operand(dt, dense, x))
	f.Norm(same, same, spec)
	f.check(name+", in place", loose, read(), want)
}
