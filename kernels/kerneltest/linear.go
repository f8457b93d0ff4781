package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"latentbeam/kernels"
)

// testLinear tests all small row counts, odd and long sums, every storage type, layout and epilogue.
func testLinear(t *testing.T, newBackend func(int) kernels.Backend) {
	t.Run("Sizes", func(t *testing.T) {
		f := newFixture(t, newBackend(2))
		for m := 1; m <= 101; m++ { // all sizes around those of blocks and vectors
			f.linear(m, 1+m*7%100, 1+m*5%67, kernels.F32, kernels.F32, dense, kernels.Epilogue{})
			f.linear(m, 1+m*13%150, 1+m*7%131, kernels.BF16, kernels.BF16, dense, kernels.Epilogue{})
		}
		for _, s := range [][3]int{{65, 129, 3}, {64, 128, 256}, {130, 33, 257}, {3, 5, 1}, {5, 300, 600},
			{2, 2, 2000}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}} {
			f.linear(s[0], s[1], s[2], kernels.F32, kernels.F32, dense, kernels.Epilogue{})
		}
	})
	t.Run("Storage", func(t *testing.T) {
		f := newFixture(t, newBackend(2))
		for _, dx := range dtypes {
			for _, dw := range dtypes {
				for _, l := range layouts {
					f.linear(9, 6, 35, dx, dw, l, kernels.Epilogue{})
				}
			}
		}
	})
	t.Run("Epilogue", func(t *testing.T) { testEpilogue(newFixture(t, newBackend(2))) })
	t.Run("Rounding", func(t *testing.T) { testRounding(newFixture(t, newBackend(2))) })
	t.Run("WideEpilogue", func(t *testing.T) {
		f := newFixture(t, newBackend(2))
		const m, n, k = 67, 300, 5
		x, w, bias := f.random(kernels.F32, m, k), f.random(kernels.F32, n, k), f.random(kernels.F32, n)
		residual, gate := f.random(kernels.F32, m, n), f.random(kernels.F32, m, n)
		want := linear(x, w)
		for i, p := range want.data {
			want.data[i] = residual.data[i] + gate.data[i]*(p+bias.data[i%n])
		}
		dst, read := f.result(kernels.F32, padded, m, n)
		f.Linear(dst, f.operand(kernels.F32, dense, x), f.operand(kernels.F32, dense, w), kernels.Epilogue{
			Bias: f.operand(kernels.F32, dense, bias), Residual: f.operand(kernels.F32, reversed, residual),
			Gate: f.operand(kernels.F32, padded, gate),
		})
		f.check("wide", kernels.F32, read(), want)
	})
	t.Run("LeadingAxes", func(t *testing.T) {
		f := newFixture(t, newBackend(2))
		x, w := f.random(kernels.F32, 2*3*4, 17), f.random(kernels.F32, 5, 17)
		want := linear(x, w)
		x.shape, want.shape = []int{2, 3, 4, 17}, []int{2, 3, 4, 5}
		for _, l := range layouts {
			dst, read := f.result(kernels.F32, l, 2, 3, 4, 5)
			f.Linear(dst, f.operand(kernels.F32, l, x), f.operand(kernels.F32, dense, w), kernels.Epilogue{})
			f.check(l.String(), kernels.F32, read(), want)
		}
		vector, read := f.result(kernels.F32, dense, 5)
		f.Linear(vector, f.operand(kernels.F32, dense, x).Index(1).Index(2).Index(3),
			f.operand(kernels.F32, dense, w), kernels.Epilogue{})
		f.check("vector", kernels.F32, read(), array{[]int{5}, want.data[len(want.data)-5:]})
	})
}

// linear computes one product and compares it; ep may have an Act.
func (f *fixture) linear(m, n, k int, dx, dw kernels.DType, l layout, ep kernels.Epilogue) {
	f.Helper()
	x, w := f.random(dx, m, k), f.random(dw, n, k)
	want := linear(x, w)
	dst, read := f.result(dx, l, m, n)
	f.Linear(dst, f.operand(dx, l, x), f.operand(dw, l, w), ep)
	partial := math.Sqrt(float64(k)) / 3 // typical magnitude of a sum of k products of random values
	f.checkScaled(fmt.Sprintf("(%d, %d, %d) %v %v %v", m, n, k, dx, dw, l), dx, partial, read(), want)
}

// testRounding: every intermediate result of an epilogue is rounded to the type of dst. From 256 on bf16, and from 2048 on fp16,
// represents only even numbers.
func testRounding(f *fixture) {
	for _, c := range []struct {
		dt   kernels.DType
		even float64
	}{{kernels.BF16, 256}, {kernels.F16, 2048}, {kernels.F32, 1 << 24}} {
		vector := func(x ...float64) kernels.Tensor { return f.operand(c.dt, dense, array{[]int{1, len(x)}, x}) }
		compute := func(ep kernels.Epilogue) float64 {
			dst, read := f.result(c.dt, dense, 1, 1)
			f.Linear(dst, vector(c.even, 1), vector(1, 1), ep) // even + 1 is a tie, which is rounded to even
			return read().data[0]
		}
		if got := compute(kernels.Epilogue{Residual: vector(-c.even)}); got != 0 {
			f.Errorf("%v: the product was not rounded before the residual: %v", c.dt, got)
		}
		bias := f.operand(c.dt, dense, array{[]int{1}, []float64{2}})
		want := map[kernels.DType]float64{kernels.BF16: 4, kernels.F16: 4, kernels.F32: 2}[c.dt]
		if got := compute(kernels.Epilogue{Bias: bias, Residual: vector(-c.even)}); got != want {
			f.Errorf("%v: even + 1 + bias 2 rounds once, to %v more than even; got %v", c.dt, want, got)
		}
		ep := kernels.Epilogue{Gate: vector(0.75), Residual: vector(-c.even * 0.75)}
		if got := compute(ep); got != 0 {
			f.Errorf("%v: the product was not rounded before the gate: %v", c.dt, got)
		}
	}
}

// testEpilogue tests all combinations of bias, activation, residual (another tensor or dst itself) and gate.
func testEpilogue(f *fixture) {
	const m, n, k = 10, 7, 35
	x, w := f.random(kernels.F32, m, k), f.random(kernels.F32, n, k)
	bias, residual, gate := f.random(kernels.F32, n), f.random(kernels.F32, m, n), f.random(kernels.F32, 1, n)
	product := linear(x, w)
	for i := range 3 * 2 * 5 * len(layouts) {
		act, withBias, rest, l := unaryOps(f)[i%3], i/3%2 == 1, i/6%5, layouts[i/30]
		want := newArray(m, n)
		for j, p := range product.data {
			if withBias {
				p += bias.data[j%n]
			}
			p = unary(act, p)
			if rest >= 3 {
				p *= gate.data[j%n]
			}
			if rest == 1 || rest == 2 || rest == 3 {
				p += residual.data[j]
			}
			want.data[j] = p
		}
		dst, read := f.result(kernels.F32, l, m, n)
		ep := kernels.Epilogue{Act: act}
		if withBias {
			ep.Bias = f.operand(kernels.F32, l, bias)
		}
		switch rest {
		case 1:
			ep.Residual = f.operand(kernels.F32, l, residual)
		case 2, 3:
			f.Copy(dst, f.operand(kernels.F32, dense, residual))
			ep.Residual = dst
		}
		if rest >= 3 {
			ep.Gate = f.operand(kernels.F32, l, gate).Expand(m, n)
		}
		f.Linear(dst, f.operand(kernels.F32, l, x), f.operand(kernels.F32, l, w), ep)
		f.check(fmt.Sprintf("act %d, bias %v, rest %d, %v", act, withBias, rest, l), kernels.F32, read(), want)
	}
}
