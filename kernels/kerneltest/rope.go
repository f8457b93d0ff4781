package kerneltest

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// testRope tests every type and layout, angles that are expanded over batch and heads, rotation in place, and queries and
// keys inside a fused projection.
func testRope(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, l := range layouts {
			t.Run(fmt.Sprint(dt, " ", l), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for _, shape := range [][4]int{
					{1, 1, 1, 2}, {2, 5, 3, 8}, {1, 7, 2, 72}, {2, 3, 2, 22}, {1, 30, 16, 64}, {1, 0, 2, 4}, {2, 3, 4, 0},
				} {
					f.rope(dt, l, shape)
				}
			})
		}
	}
	t.Run("Fused", func(t *testing.T) { testRopeFused(newFixture(t, newBackend(2))) })
}

func (f *fixture) rope(dt kernels.DType, l layout, shape [4]int) {
	f.Helper()
	x := f.random(dt, shape[:]...)
	cos, sin := f.random(kernels.F32, shape[1], shape[3]/2), f.random(kernels.F32, shape[1], shape[3]/2)
	wide := func(a array) kernels.Tensor {
		return f.operand(kernels.F32, l, array{[]int{shape[1], 1, shape[3] / 2}, a.data}).
			Expand(shape[0], shape[1], shape[2], shape[3]/2)
	}
	want := rope(x, cos, sin)
	dst, read := f.result(dt, dense, shape[:]...)
	f.Rope(dst, f.operand(dt, l, x), wide(cos), wide(sin))
	f.checkScaled(fmt.Sprint(shape), dt, 3, read(), want) // two products and their sum are each rounded
	same, read := f.result(dt, l, shape[:]...)
	f.Copy(same, f.operand(dt, dense, x))
	f.Rope(same, same, wide(cos), wide(sin))
	f.checkScaled(fmt.Sprint(shape, " in place"), dt, 3, read(), want)
}

// testRopeFused rotates q and k inside (B, T, S, 3, H, D) along T, as temporal attention does. v must not change.
func testRopeFused(f *fixture) {
	const batch, frames, space, h, d = 2, 5, 3, 2, 8
	all := f.random(kernels.F32, batch, frames, space, 3, h, d)
	cos, sin := f.random(kernels.F32, frames, d/2), f.random(kernels.F32, frames, d/2)
	angles := func(a array) kernels.Tensor {
		return f.operand(kernels.F32, dense, array{[]int{frames, 1, 1, 1, d / 2}, a.data}).
			Expand(batch, frames, space, 2, h, d/2)
	}
	qkv, read := f.result(kernels.F32, dense, all.shape...)
	f.Copy(qkv, f.operand(kernels.F32, dense, all))
	qk := qkv.Narrow(3, 0, 2)
	f.Rope(qk, qk, angles(cos), angles(sin))

	flat := rope(array{[]int{batch, frames, space * 3 * h, d}, all.data}, cos, sin)
	want := array{all.shape, flat.data}
	for i := range want.data {
		if i/(h*d)%3 == 2 {
			want.data[i] = all.data[i]
		}
	}
	f.check("queries and keys in place", kernels.F32, read(), want)
}
