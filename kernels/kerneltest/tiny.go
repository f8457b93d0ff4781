package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"latentbeam/kernels"
)

// testTiny computes with numbers whose products are near the smallest fp32 numbers, mixed with larger ones. Results must be small and
// not NaN. Record compares the bits, so it also finds differences in whether subnormal numbers are flushed to zero.
func testTiny(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		t.Run(dt.String(), func(t *testing.T) {
			f := newFixture(t, newBackend(2))
			for turn := range 12 {
				f.tinyProducts(dt, turn)
				f.tinyRows(dt, turn)
			}
		})
	}
}

// tiny returns numbers with magnitudes from 2^-62 to 2^-70; one in four is about 2^-126.
func (f *fixture) tiny(dt kernels.DType, shape ...int) array {
	a := newArray(shape...)
	for i := range a.data {
		exp := -62 - f.rand.IntN(8)
		if f.rand.IntN(4) == 0 {
			exp = -123 - f.rand.IntN(8)
		}
		a.data[i] = float64(dt.Round(float32(math.Ldexp(f.rand.Float64()*2-1, exp))))
	}
	return a
}

// small reads a result and fails the test if an element is larger than limit.
func (f *fixture) small(name string, limit float64, read func() array) {
	f.Helper()
	for i, x := range read().data {
		if !(math.Abs(x) <= limit) {
			f.Fatalf("%s: element %d is %v", name, i, x)
		}
	}
}

func (f *fixture) tinyProducts(dt kernels.DType, turn int) {
	f.Helper()
	defer f.Scope()()
	const k, n = 301, 83
	m := 1 + turn*5
	for _, l := range layouts {
		x, w := f.operand(dt, l, f.tiny(dt, m, k)), f.operand(dt, dense, f.tiny(dt, n, k))
		for i, ep := range []kernels.Epilogue{{}, {Bias: f.operand(dt, dense, f.tiny(dt, n))},
			{Bias: f.operand(dt, dense, f.tiny(dt, n)), Residual: f.operand(dt, l, f.tiny(dt, m, n))},
			{Gate: f.operand(dt, dense, f.tiny(dt, m, n)), Residual: f.operand(dt, dense, f.tiny(dt, m, n))},
			{Act: kernels.SiLU, Parts: []int{100, 150}}} {
			dst, read := f.result(dt, l, m, n)
			f.Linear(dst, x, w, ep)
			f.small(fmt.Sprint("linear ", i), 1e-15, read)
		}
	}
	q, k1, v := f.operand(dt, dense, f.random(dt, 2, m, 2, 72)), f.random(dt, 2, 7*m, 2, 72), f.tiny(dt, 2, 7*m, 2, 72)
	for i := range k1.data {
		k1.data[i] = float64(dt.Round(float32(k1.data[i] * 20))) // some weights are tiny
	}
	dst, read := f.result(dt, dense, 2, m, 2, 72)
	f.Attention(dst, q, f.operand(dt, dense, k1), f.operand(dt, dense, v), kernels.AttentionSpec{Scale: 1})
	f.small("attention", 1e-15, read)
	dst, read = f.result(dt, dense, 2, 5, 4, 9)
	f.Conv(dst, f.operand(dt, dense, f.tiny(dt, 2, 5, 4, 7)), f.operand(dt, dense, f.tiny(dt, 9, 7, 3, 3)),
		kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1})
	f.small("conv", 1e-15, read)
}

func (f *fixture) tinyRows(dt kernels.DType, turn int) {
	f.Helper()
	defer f.Scope()()
	c, rows := 2*(20+turn*7), 1+turn
	x := f.operand(dt, dense, f.tiny(dt, rows, c))
	weight, shift := f.operand(dt, dense, f.tiny(dt, c)), f.operand(dt, dense, f.tiny(dt, rows, c))
	for i, spec := range []kernels.NormSpec{{}, {Weight: weight}, {Weight: weight, Bias: weight}, {Scale: shift, Shift: shift},
		{Kind: kernels.RMSNorm, Weight: weight}, {Kind: kernels.RMSNorm, Weight: weight, Act: kernels.SiLU},
		{Kind: kernels.RMSNorm, Scale: shift, Shift: shift}} {
		spec.Eps = 1e-6
		dst, read := f.result(dt, dense, rows, c)
		f.Norm(dst, x, spec)
		f.small(fmt.Sprint("norm ", i), 1e-10, read)
	}
	angles := f.operand(dt, dense, f.tiny(dt, 1, c/2)).Expand(rows, c/2)
	dst, read := f.result(dt, dense, rows, c)
	f.Rope(dst, x, angles, angles)
	f.small("rope", 1e-15, read)
	for _, op := range []kernels.BinaryOp{kernels.Add, kernels.Mul} {
		dst, read := f.result(dt, dense, rows, c)
		f.Binary(dst, x, shift, op)
		f.small("binary", 1e-15, read)
	}
	for _, op := range []kernels.UnaryOp{kernels.SiLU, kernels.GELUTanh, kernels.Sigmoid} {
		dst, read := f.result(dt, dense, rows, c)
		f.Unary(dst, x, op)
		f.small("unary", 1, read)
	}
}

// testLong tests sums of several stages, odd lengths, and convolutions with so many channels that the distance between pixels causes
// cache conflicts.
func testLong(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		t.Run(dt.String(), func(t *testing.T) {
			f := newFixture(t, newBackend(2))
			for _, k := range []int{1025, 2050, 3073} {
				x, w := f.random(dt, 5, k), f.random(dt, 70, k)
				for _, parts := range [][]int{nil, {600, 700, 1000}} {
					dst, read := f.result(kernels.F32, dense, 5, 70)
					f.Linear(dst, f.operand(dt, dense, x), f.operand(dt, dense, w), kernels.Epilogue{Parts: parts})
					f.checkScaled(fmt.Sprint(k, " terms in parts ", parts), kernels.F32, 100, read(), linear(x, w))
				}
			}
			q, k, v := f.random(dt, 1, 7, 1, 40), f.random(dt, 1, 1037, 1, 40), f.random(dt, 1, 1037, 1, 40)
			dst, read := f.result(kernels.F32, dense, 1, 7, 1, 40)
			f.Attention(dst, f.operand(dt, dense, q), f.operand(dt, dense, k), f.operand(dt, dense, v), kernels.AttentionSpec{Scale: 0.7})
			f.check("1037 keys", dt, read(), attention(q, k, v, 0.7, nil, nil))
			for _, c := range []struct{ channels, stride int }{{1024, 1}, {512, 1}, {512, 2}, {513, 1}, {256, 2}} {
				spec := kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1, Stride: c.stride}
				x, w := f.random(dt, 1, 1, 3, 4, c.channels), f.random(dt, 5, c.channels, 1, 3, 3)
				want := conv(x, w, kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1, Stride: c.stride})
				dst, read := f.result(kernels.F32, dense, want.shape...)
				f.Conv(dst, f.operand(dt, dense, x), f.operand(dt, dense, w), spec)
				f.checkScaled(fmt.Sprint(c.channels, " channels"), kernels.F32, 100, read(), want)
			}
		})
	}
}
