package kerneltest

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// testAttentionRanges: sets of devices divide attention by queries, heads and entries, and change the layout of the parts. A part
// gives the same bits as in the whole: in every type, with few and many keys, dense or strided, with 1, 2 and 8 threads (each
// with its own layout).
func testAttentionRanges(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, c := range []struct {
			keys, d int
			bias    bool
		}{{1, 8, false}, {16, 72, false}, {29, 64, false}, {32, 40, false}, {33, 72, false}, {600, 72, false},
			{120, 64, true}, {17, 16, true}, {70, 9, false}} {
			t.Run(fmt.Sprintf("%v %d keys of %d bias %v", dt, c.keys, c.d, c.bias), func(t *testing.T) {
				r := newRanges(t, newBackend(1), dt, c.keys, c.d, c.bias)
				r.compare(newBackend)
			})
		}
	}
}

// ranges is one attention whose parts are computed again.
type ranges struct {
	*testing.T
	dt            kernels.DType
	q, k, v, bias array
	whole         []float32
}

const rangeQueries, rangeHeads = 77, 2

func newRanges(t *testing.T, b kernels.Backend, dt kernels.DType, keys, d int, bias bool) *ranges {
	f := newFixture(t, b)
	r := &ranges{T: t, dt: dt, q: f.random(dt, 2, rangeQueries, rangeHeads, d),
		k: f.random(dt, 2, keys, rangeHeads, d), v: f.random(dt, 2, keys, rangeHeads, d)}
	if bias {
		r.bias = f.random(kernels.F32, rangeHeads, rangeQueries, keys)
	}
	r.whole = r.part(b, dense, 0, 2, 0, rangeQueries, 0, rangeHeads)
	return r
}

// part computes entries, queries and heads [from, to) of operands with layout l.
func (r *ranges) part(b kernels.Backend, l layout, e0, e1, q0, q1, h0, h1 int) []float32 {
	r.Helper()
	f := newFixture(r.T, b)
	defer f.Scope()()
	cut := func(a array) kernels.Tensor {
		return f.operand(r.dt, l, a).Narrow(0, e0, e1-e0).Narrow(2, h0, h1-h0)
	}
	spec := kernels.AttentionSpec{Scale: 0.7}
	if r.bias.shape != nil {
		spec.Bias = f.operand(kernels.F32, l, r.bias).Narrow(0, h0, h1-h0).Narrow(1, q0, q1-q0)
	}
	q := cut(r.q).Narrow(1, q0, q1-q0)
	dst, _ := f.placeView(r.dt, l, q.Shape)
	f.Attention(dst, q, cut(r.k), cut(r.v), spec)
	got := make([]float32, dst.Len())
	if err := f.Download(got, dst); err != nil {
		r.Fatal(err)
	}
	return got
}

func (r *ranges) compare(newBackend func(int) kernels.Backend) {
	d := r.q.shape[3]
	for i, threads := range []int{1, 2, 8} {
		b, l := newBackend(threads), layouts[i]
		for _, c := range [][6]int{
			{0, 2, 0, rangeQueries, 0, rangeHeads}, {1, 2, 5, 6, 1, 2}, {0, 1, 76, 77, 0, 2}, {0, 2, 13, 77, 1, 2},
			{0, 1, 3, 64, 0, 1},
		} {
			var want []float32
			for e := c[0]; e < c[1]; e++ {
				for q := c[2]; q < c[3]; q++ {
					at := ((e*rangeQueries+q)*rangeHeads + c[4]) * d
					want = append(want, r.whole[at:at+(c[5]-c[4])*d]...)
				}
			}
			got := r.part(b, l, c[0], c[1], c[2], c[3], c[4], c[5])
			sameBits(r.T, fmt.Sprint(threads, " threads, ", l, ", range ", c), got, want)
		}
	}
}
