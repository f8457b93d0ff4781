package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"latentbeam/kernels"
)

// unaryOps returns the unary operations that a device supports.
func unaryOps(be kernels.Backend) []kernels.UnaryOp {
	ops := []kernels.UnaryOp{kernels.Identity, kernels.SiLU, kernels.GELUTanh, kernels.Sigmoid}
	if be.Capabilities().ReLU {
		ops = append(ops, kernels.ReLU, kernels.Tanh)
	}
	return ops
}

// testElementwise tests Unary and Binary on every type and layout, expanded, in place, and with large values.
func testElementwise(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, l := range layouts {
			t.Run(fmt.Sprint(dt, " ", l), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for _, shape := range [][]int{{1}, {3, 5}, {2, 3, 1, 5}, {2, 70, 70}, {5, 0}, {5000, 1}} {
					f.elementwise(dt, l, shape)
				}
			})
		}
	}
	t.Run("Range", func(t *testing.T) { testRange(newFixture(t, newBackend(1))) })
	t.Run("Expanded", func(t *testing.T) {
		f := newFixture(t, newBackend(2))
		x, gate := f.random(kernels.F32, 2, 3, 70), f.random(kernels.BF16, 2, 1, 70)
		want := newArray(2, 3, 70)
		for i := range want.data {
			want.data[i] = x.data[i] * gate.data[i/210*70+i%70]
		}
		dst, read := f.result(kernels.F32, dense, 2, 3, 70)
		wide := f.operand(kernels.BF16, padded, gate).Expand(2, 3, 70)
		f.Binary(dst, f.operand(kernels.F32, padded, x), wide, kernels.Mul)
		f.check("expanded", kernels.F32, read(), want)
	})
}

func (f *fixture) elementwise(dt kernels.DType, l layout, shape []int) {
	a, b := f.random(dt, shape...), f.random(dt, shape...)
	x, y := f.operand(dt, l, a), f.operand(dt, dense, b)
	for _, op := range unaryOps(f) {
		want := newArray(shape...)
		for i, v := range a.data {
			want.data[i] = unary(op, v)
		}
		dst, read := f.result(dt, dense, shape...)
		f.Unary(dst, x, op)
		f.check(fmt.Sprint("unary ", op, shape), dt, read(), want)
		same, read := f.result(dt, l, shape...)
		f.Copy(same, x)
		f.Unary(same, same, op)
		f.check(fmt.Sprint("unary in place ", op, shape), dt, read(), want)
	}
	for _, op := range []kernels.BinaryOp{kernels.Add, kernels.Mul} {
		want := newArray(shape...)
		for i, v := range a.data {
			if want.data[i] = v + b.data[i]; op == kernels.Mul {
				want.data[i] = v * b.data[i]
			}
		}
		dst, read := f.result(dt, l, shape...)
		f.Binary(dst, x, y, op)
		f.check(fmt.Sprint("binary ", op, shape), dt, read(), want)
		same, read := f.result(dt, l, shape...)
		f.Copy(same, x)
		f.Binary(same, same, y, op)
		f.check(fmt.Sprint("binary in place ", op, shape), dt, read(), want)
	}
}

// testRange tests activations from far below to far above zero, where exp leaves the range of fp32.
func testRange(f *fixture) {
	var x array
	for v := -200.0; v <= 200; v += 0.37 {
		x.data = append(x.data, float64(float32(v)))
	}
	for _, v := range []float64{1e-30, -1e-30, 1e30, -1e30, 0, 88.4, -88.4, 88.8, -88.8} {
		x.data = append(x.data, float64(float32(v)))
	}
	x.shape = []int{len(x.data)}
	for _, op := range unaryOps(f) {
		want := newArray(x.shape...)
		for i, v := range x.data {
			want.data[i] = unary(op, v)
		}
		dst, read := f.result(kernels.F32, dense, x.shape...)
		f.Unary(dst, f.operand(kernels.F32, dense, x), op)
		got := read()
		f.check(fmt.Sprint("range of ", op), kernels.F32, got, want)
		// check allows an absolute error, so it does not see wrong results near 0. Their relative error must be small too, except
		// far below zero, where results underflow.
		for i, w := range want.data {
			if w != 0 && x.data[i] > -4 && math.Abs(got.data[i]/w-1) > 4e-6 {
				f.Errorf("op %d of %v is %v, want %v", op, x.data[i], got.data[i], w)
			}
		}
	}
	bad := array{[]int{1}, []float64{math.NaN()}}
	for _, op := range unaryOps(f) {
		dst, read := f.result(kernels.F32, dense, 1)
		f.Upload(dst, []float32{0})
		f.Unary(dst, f.operand(kernels.F32, dense, bad), op)
		f.check(fmt.Sprint("NaN through ", op), kernels.F32, read(), bad)
	}
}
