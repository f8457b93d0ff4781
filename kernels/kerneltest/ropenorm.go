package kerneltest

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// testRopeNorm: RMSNorm with a rotation gives the bits of the norm followed by the rotation, or the other way round, for random
// shapes, types and layouts, into another tensor and in place.
func testRopeNorm(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, l := range layouts {
			t.Run(fmt.Sprint(dt, " ", l), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for range 24 {
					newRopeNorm(f, dt, l).compare()
				}
			})
		}
		t.Run(fmt.Sprint(dt, " fused"), func(t *testing.T) {
			f := newFixture(t, newBackend(2))
			for _, d := range []int{8, 22, 64, 72, 128} {
				newRopeNorm(f, dt, dense).compareFused(d)
			}
		})
	}
}

// ropeNorm is one norm with a rotation: x (B, L, N, H, D).
type ropeNorm struct {
	*fixture
	dt, dst, other kernels.DType // types of x, of the result, and of weights and angles
	layout         layout
	x, weight      array
	cos, sin       array
	first          bool // rotate before the norm
	weights        int  // 0: none; 1: one for all; 2: N of them; 3: one for each row
}

var ropeNormWidths = []int{2, 6, 8, 10, 22, 40, 64, 72, 80, 128, 136, 300, 1290, 0}

func newRopeNorm(f *fixture, dt kernels.DType, l layout) *ropeNorm {
	n := func(limit int) int { return 1 + f.rand.IntN(limit) } // 1 to limit
	c := &ropeNorm{fixture: f, dt: dt, dst: dt, other: dt, layout: l, first: n(2) == 1, weights: f.rand.IntN(4)}
	if n(3) == 1 {
		c.dst = dtypes[f.rand.IntN(len(dtypes))]
	}
	if n(3) == 1 {
		c.other = dtypes[f.rand.IntN(len(dtypes))]
	}
	d := ropeNormWidths[f.rand.IntN(len(ropeNormWidths))]
	if c.weights == 3 { // the separate steps need a call for each row
		c.fill(1, n(3), n(2), n(3), d)
	} else {
		c.fill(n(2), n(7), n(3), n(5), d)
	}
	return c
}

// fill makes operands with x (b, l, n, h, d). Angles and weights have length 1 on the axes that they do not depend
// on.
func (c *ropeNorm) fill(b, l, n, h, d int) {
	c.x = c.random(c.dt, b, l, n, h, d)
	angles := []int{1, l, 1, 1, d / 2}
	if c.rand.IntN(3) == 0 {
		angles = []int{b, 1, 1, h, d / 2}
	}
	c.cos, c.sin = c.random(c.other, angles...), c.random(c.other, angles...)
	c.weight = c.random(c.other, [][]int{{0}, {d}, {n, 1, d}, {b, l, n, h, d}}[c.weights]...)
}

// spec returns the spec of the call, with operands in the given layout.
func (c *ropeNorm) spec() kernels.NormSpec {
	half := append([]int(nil), c.x.shape...)
	half[4] /= 2
	spec := kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6, RopeFirst: c.first,
		Cos: c.operand(c.other, c.layout, c.cos).Expand(half...), Sin: c.operand(c.other, c.layout, c.sin).Expand(half...)}
	switch c.weights {
	case 1:
		spec.Weight = c.operand(c.other, c.layout, c.weight)
	case 2, 3:
		spec.Weight = c.operand(c.other, c.layout, c.weight).Expand(c.x.shape...)
	}
	return spec
}

// steps computes the same result with separate calls on dense tensors, one call for each row of weights.
func (c *ropeNorm) steps(spec kernels.NormSpec) []float64 {
	dst, read := c.result(c.dst, dense, c.x.shape...)
	x := c.operand(c.dt, dense, c.x)
	if c.first {
		c.Rope(dst, x, spec.Cos, spec.Sin)
		x = dst
	}
	plain := kernels.NormSpec{Kind: spec.Kind, Eps: spec.Eps, Weight: spec.Weight}
	if c.weights < 2 {
		c.Norm(dst, x, plain)
	} else {
		c.rows(dst, x, plain)
	}
	if !c.first {
		c.Rope(dst, dst, spec.Cos, spec.Sin)
	}
	return read().data
}

// rows normalises the rows that share a weight: (H, D), or one row of it.
func (c *ropeNorm) rows(dst, x kernels.Tensor, spec kernels.NormSpec) {
	each := func(ts []kernels.Tensor, f func(ts []kernels.Tensor)) {
		for i := range ts[0].Shape[0] {
			entry := make([]kernels.Tensor, len(ts))
			for j, t := range ts {
				entry[j] = t.Index(i)
			}
			f(entry)
		}
	}
	leaf := func(ts []kernels.Tensor) {
		c.Norm(ts[0], ts[1], kernels.NormSpec{Kind: spec.Kind, Eps: spec.Eps, Weight: ts[2]})
	}
	walk := leaf
	for range len(x.Shape) - 1 {
		inner := walk
		walk = func(ts []kernels.Tensor) { each(ts, inner) }
	}
	walk([]kernels.Tensor{dst, x, spec.Weight})
}

func (c *ropeNorm) String() string {
	return fmt.Sprintf("%v of %v to %v, weights %d and angles %v of %v, rotated first %v", c.dt, c.x.shape,
		c.dst, c.weights, c.cos.shape, c.other, c.first)
}

// compare computes the call into another tensor and, if the types allow it, in place.
func (c *ropeNorm) compare() {
	c.Helper()
	defer c.Scope()()
	spec := c.spec()
	want := c.steps(spec)
	dst, read := c.result(c.dst, c.layout, c.x.shape...)
	c.Norm(dst, c.operand(c.dt, c.layout, c.x), spec)
	c.compareBits("", read().data, want)
	if c.dst != c.dt {
		return
	}
	dst, read = c.result(c.dst, c.layout, c.x.shape...)
	c.Copy(dst, c.operand(c.dt, dense, c.x))
	c.Norm(dst, dst, spec)
	c.compareBits(", in place", read().data, want)
}

// compareFused rotates queries and keys (B, L, 2, H, D) inside a fused projection. The values must not change.
func (c *ropeNorm) compareFused(d int) {
	c.Helper()
	defer c.Scope()()
	c.dst, c.weights, c.first = c.dt, 2, d == 64
	c.fill(2, 9, 2, 4, d)
	spec := c.spec()
	want := c.steps(spec)
	values := c.random(c.dt, 2, 9, 1, 4, d)
	qkv, read := c.result(c.dt, dense, 2, 9, 3, 4, d)
	qk := qkv.Narrow(2, 0, 2)
	c.Copy(qk, c.operand(c.dt, dense, c.x))
	c.Copy(qkv.Narrow(2, 2, 1), c.operand(c.dt, dense, values))
	c.Norm(qk, qk, spec)
	all, got := read().data, []float64(nil)
	token := 3 * 4 * d
	for i := range 2 * 9 {
		got = append(got, all[i*token:][:2*4*d]...)
		for j, v := range all[i*token+2*4*d:][:4*d] {
			if v != values.data[i*4*d+j] {
				c.Fatalf("%v: the values of token %d changed", c, i)
			}
		}
	}
	c.compareBits(" inside a projection", got, want)
}

// compareBits compares the bits of two results.
func (c *ropeNorm) compareBits(where string, got, want []float64) {
	c.Helper()
	narrow := func(list []float64) []float32 {
		out := make([]float32, len(list))
		for i, v := range list {
			out[i] = float32(v)
		}
		return out
	}
	sameBits(c.T, c.String()+where, narrow(got), narrow(want))
}
