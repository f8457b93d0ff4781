package kerneltest

import (
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels"
)

// testAttention tests self and cross attention: long and empty key lists, lengths, bias, strides.
func testAttention(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, c := range []struct {
		name                string
		batch, lq, lk, h, d int
		lens                []int
		bias                bool
	}{
		{"one", 1, 1, 1, 1, 1, nil, false},
		{"self", 2, 16, 16, 3, 8, nil, false},
		{"odd", 2, 7, 13, 3, 9, nil, true},
		{"cross with lengths", 3, 5, 12, 2, 16, []int{12, 1, 7}, false},
		{"no valid key", 2, 3, 4, 2, 8, []int{0, 4}, true},
		{"no key at all", 1, 3, 0, 2, 8, nil, false},
		{"no query", 2, 0, 4, 2, 8, nil, false},
		{"long", 1, 66, 520, 1, 40, []int{519}, true},
		{"wide head", 1, 3, 130, 1, 300, nil, false},
		{"frames", 3, 16, 16, 2, 72, nil, false},
		{"more frames", 2, 30, 30, 2, 64, []int{30, 17}, false},
		{"few keys of wide heads", 1, 5, 13, 2, 136, nil, false},
		{"space", 1, 61, 150, 2, 72, nil, false},
		{"several blocks", 1, 7, 1100, 1, 80, nil, false},
		{"text", 2, 9, 70, 3, 64, []int{65, 70}, true},
		{"texts short and long", 3, 140, 131, 1, 72, []int{20, 131, 64}, false},
	} {
		for _, l := range layouts {
			t.Run(c.name+" "+l.String(), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for _, dt := range dtypes {
					f.attention(dt, l, c.batch, c.lq, c.lk, c.h, c.d, c.lens, c.bias)
				}
			})
		}
	}
	t.Run("NoScale", func(t *testing.T) { testNoScale(newFixture(t, newBackend(2))) })
	t.Run("TwoAxes", func(t *testing.T) { testTwoAxes(newFixture(t, newBackend(2))) })
	t.Run("Large", func(t *testing.T) { testLargeScores(newFixture(t, newBackend(1))) })
}

// attention computes one case. Keys, values and bias beyond the valid length are NaN.
func (f *fixture) attention(dt kernels.DType, l layout, batch, lq, lk, h, d int, lens []int, withBias bool) {
	f.Helper()
	q, k, v := f.random(dt, batch, lq, h, d), f.random(dt, batch, lk, h, d), f.random(dt, batch, lk, h, d)
	spec := kernels.AttentionSpec{Scale: 1.7, KeyLens: slices.Clone(lens)}
	var bias *array
	if withBias {
		a := f.random(kernels.F32, h, lq, lk)
		bias = &a
	}
	want := attention(q, k, v, float64(spec.Scale), lens, bias)
	for b, valid := range lens {
		poison(k.data[b*lk*h*d:(b+1)*lk*h*d], valid*h*d)
		poison(v.data[b*lk*h*d:(b+1)*lk*h*d], valid*h*d)
	}
	if withBias {
		spec.Bias = f.operand(kernels.F32, l, *bias)
	}
	dst, read := f.result(dt, l, batch, lq, h, d)
	f.Attention(dst, f.operand(dt, l, q), f.operand(dt, l, k), f.operand(dt, l, v), spec)
	clear(spec.KeyLens) // the backend must have copied them
	f.check(fmt.Sprint(dt), dt, read(), want)
}

// poison sets data from start on to NaN.
func poison(data []float64, start int) {
	for i := start; i < len(data); i++ {
		data[i] = float64(nan)
	}
}

// testTwoAxes tests temporal attention over T. In memory T is not next to the heads: q, k and v are parts of one tensor
// (B, T, S, 3, H, D).
func testTwoAxes(f *fixture) {
	const batch, frames, space, h, d = 2, 5, 3, 2, 8
	all := f.random(kernels.F32, batch, frames, space, 3, h, d)
	lens := []int{5, 2}
	qkv := f.operand(kernels.F32, dense, all).Permute(3, 0, 2, 1, 4, 5)
	dst, read := f.result(kernels.F32, dense, batch, frames, space, h, d)
	f.Attention(dst.Permute(0, 2, 1, 3, 4), qkv.Index(0), qkv.Index(1), qkv.Index(2),
		kernels.AttentionSpec{Scale: 0.5, KeyLens: lens})
	got := read()

	want := newArray(batch, frames, space, h, d)
	var parts [3]array
	for p := range parts {
		parts[p] = newArray(batch*space, frames, h, d)
	}
	each := func(f func(b, t, s, h, d int)) {
		for i := range batch * frames * space * h * d {
			f(i/(frames*space*h*d), i/(space*h*d)%frames, i/(h*d)%space, i/d%h, i%d)
		}
	}
	each(func(b, t, s, h, d int) {
		for p := range parts {
			*parts[p].at(b*space+s, t, h, d) = *all.at(b, t, s, p, h, d)
		}
	})
	flat := attention(parts[0], parts[1], parts[2], 0.5, []int{5, 5, 5, 2, 2, 2}, nil)
	each(func(b, t, s, h, d int) { *want.at(b, t, s, h, d) = *flat.at(b*space+s, t, h, d) })
	f.check("temporal", kernels.F32, got, want)
}

// testNoScale: with a scale of 0 all keys get the same weight.
func testNoScale(f *fixture) {
	for _, dt := range dtypes {
		for _, d := range []int{8, 64, 72} {
			for _, keys := range []int{5, 70, 130} {
				q, k, v := f.random(dt, 1, 9, 2, d), f.random(dt, 1, keys, 2, d), f.random(dt, 1, keys, 2, d)
				dst, read := f.result(dt, dense, 1, 9, 2, d)
				f.Attention(dst, f.operand(dt, dense, q), f.operand(dt, dense, k), f.operand(dt, dense, v), kernels.AttentionSpec{})
				f.check(fmt.Sprint(dt, " ", d, " ", keys), dt, read(), attention(q, k, v, 0, nil, nil))
			}
		}
	}
}

// testLargeScores: scores of several hundred that differ a lot must not overflow, and their weights must not all become 0. The scale
// has both signs.
func testLargeScores(f *fixture) {
	for _, keys := range []int{9, 70} {
		q := f.random(kernels.F32, 1, 4, 1, 8)
		k, v := f.random(kernels.F32, 1, keys, 1, 8), f.random(kernels.F32, 1, keys, 1, 8)
		for _, scale := range []float32{400, -400, 0} {
			want := attention(q, k, v, float64(scale), nil, nil)
			dst, read := f.result(kernels.F32, dense, 1, 4, 1, 8)
			f.Attention(dst, f.operand(kernels.F32, dense, q), f.operand(kernels.F32, dense, k),
				f.operand(kernels.F32, dense, v), kernels.AttentionSpec{Scale: scale})
			got := read()
			for i, w := range want.data { // fp32 scores near 1000 have an error of 1e-4 themselves
				if diff := got.data[i] - w; !(diff < 1e-3 && diff > -1e-3) {
					f.Fatalf("%d keys, scale %v: element %d is %v, want %v", keys, scale, i, got.data[i], w)
				}
			}
		}
	}
}
