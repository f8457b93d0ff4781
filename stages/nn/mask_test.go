package nn_test

import (
	"math"
	"testing"

	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// grid are hashed numbers (B, T H W, C) of all tokens of the mask's grid.
func (c sharedCase) grid(name string) []float32 {
	return nntest.Hash(name, 1.3, c.shape.Batch, c.mask.Tokens(), c.shape.Width())
}

// gathered are those of the valid tokens, (B, 1, valid, C): a mask is evaluated where tokens are taken, by the six
// numbers that it is.
func (c sharedCase) gathered(name string) (out []float32) {
	all, width := c.grid(name), c.shape.Width()
	for b := range c.shape.Batch {
		row := all[b*c.mask.Tokens()*width:]
		for run := range c.mask.Runs(sequence.Range{Hi: c.mask.Tokens()}) {
			out = append(out, row[run.Lo*width:run.Hi*width]...)
		}
	}
	return out
}

// TestOpenSoraPlanMask is the case of Open-Sora-Plan: full attention over (T, H, W) under a mask of the padded grid, (1, 24,
// 60, 80) there and in the same proportions here, with heads exchanged by all-to-all. There, every worker has a copy of the
// mask; here, the hidden tokens are removed. Any number of ranks has the bits of one rank, and the values are those of masked
// attention over the whole grid in float64.
func TestOpenSoraPlanMask(t *testing.T) {
	mask, err := sequence.NewMask([3]int{4, 10, 8}, [3]int{3, 7, 5})
	if err != nil {
		t.Fatal(err)
	}
	c := sharedCase{mask: &mask, shape: sequence.Shape{Batch: 2, Frames: 1, Positions: mask.Count(), Heads: 6,
		HeadSize: 4, QueryTile: 16}}
	want := c.alone(t)
	for ranks := 1; ranks <= 9; ranks++ {
		for _, p := range []sequence.Partition{sequence.Uneven, sequence.Pad} {
			c.partition, c.speeds = p, sequence.Equal(ranks)
			got, _ := c.shared(t)
			if n := differences(got, want); n > 0 {
				t.Errorf("%v: %d of %d values differ from one rank's", c, n, len(want))
			}
		}
	}
	if d := largest(want, c.masked(t, func(i int) bool { return !mask.Has(i) })); d > 1e-5 {
		t.Errorf("differs by %g from masked attention over the grid", d)
	}
	if d := largest(want, c.masked(t, nil)); d < 1e-3 {
		t.Errorf("attention without the mask differs by %g only: the test sees nothing", d)
	}
}

// largest is the largest difference.
func largest(got []float32, want []float64) (most float64) {
	for i := range want {
		most = max(most, math.Abs(float64(got[i])-want[i]))
	}
	return most
}

// masked is attention over the whole grid in float64, of its valid tokens; keys that are hidden count nothing.
func (c sharedCase) masked(t *testing.T, hidden func(token int) bool) (out []float64) {
	whole := c
	whole.mask, whole.hidden, whole.shape.Positions = nil, hidden, c.mask.Tokens()
	all, width := whole.oracle(t), c.shape.Width()
	for i := range len(all) / width {
		if c.mask.Has(i % c.mask.Tokens()) {
			out = append(out, all[i*width:][:width]...)
		}
	}
	return out
}
