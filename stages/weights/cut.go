package weights

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
)

// Cut is one rank of tensor parallelism. It loads some heads of every attention and some columns of every hidden layer, split
// at the borders of the parts of their sums (layout.TensorCut). The zero value is a single rank.
type Cut struct{ Rank, Ways int }

// Heads returns the range of n heads that the rank has.
func (c Cut) Heads(n int) (sequence.Range, error) {
	if c.Ways <= 1 {
		return sequence.Range{Hi: n}, nil
	}
	ranges, err := layout.TensorCut(n, c.Ways)
	if err != nil {
		return sequence.Range{}, err
	}
	return ranges[c.Rank], nil
}

// Cut returns the same weights for one rank of tensor parallelism. Layers that cannot be split are loaded whole.
func (w *Weights) Cut(c Cut) *Weights {
	cut := *w
	cut.cut = c
	return &cut
}

// Ways returns the number of ranks of tensor parallelism, 0 or 1 without.
func (w *Weights) Ways() int { return w.cut.Ways }

// units returns this rank's part of n heads or groups of columns. Too many ranks are recorded as a misfit.
func (w *Weights) units(n int) sequence.Range {
	if w.cut.Ways <= 1 {
		return sequence.Range{Hi: n}
	}
	ranges, err := layout.TensorCut(n, w.cut.Ways)
	if parts := len(layout.SumParts(n)); err != nil || w.cut.Ways > parts {
		w.fault("not cut", w.prefix+"*",
			fmt.Sprintf("%d ranks of tensor parallelism for sums of %d parts", w.cut.Ways, parts))
		return sequence.Range{Hi: n}
	}
	return ranges[w.cut.Rank]
}

// Heads returns this rank's part of n heads of width d, as a range of heads and as a range of columns.
func (w *Weights) Heads(n, d int) (heads, columns sequence.Range) {
	heads = w.units(n)
	return heads, sequence.Range{Lo: heads.Lo * d, Hi: heads.Hi * d}
}

// Hidden returns this rank's columns of a hidden layer.
func (w *Weights) Hidden(hidden int) sequence.Range {
	return layout.Columns(w.units(layout.ColumnUnits(hidden)), hidden)
}

// Part returns a part of the named tensor, which must have exactly this shape.
func (w *Weights) Part(name string, part Subset, shape ...int) kernels.Tensor {
	return w.load(name, shape, func(have []int) bool { return slices.Equal(have, shape) }, part)
}

// Subset is a part of a tensor: some rows of each group of its first axis, or some columns of its second axis. The zero value
// is the whole tensor.
type Subset struct {
	Groups  int
	Rows    sequence.Range // in each group; empty: all
	Columns sequence.Range // empty: all
}

// shape returns the shape of the part, given the shape of the whole tensor.
func (s Subset) shape(whole []int) []int {
	shape := slices.Clone(whole)
	if s.Rows.Len() > 0 {
		shape[0] = s.Groups * s.Rows.Len()
	}
	if s.Columns.Len() > 0 {
		shape[1] = s.Columns.Len()
	}
	return shape
}
