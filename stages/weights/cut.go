package weights

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
)

// Cut is one rank of tensor parallelism: it loads some heads of every attention and some columns of every
// hidden layer, cut where the sums over them have parts (weights.TensorCut). The zero value is a rank alone.
type Cut struct{ Rank, Ways int }

// Heads returns which of n heads the rank has.
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

// Cut returns the same weights for one rank of tensor parallelism. Layers that are not cut are loaded whole.
func (w *Weights) Cut(c Cut) *Weights {
	cut := *w
	cut.cut = c
	return &cut
}

// Ways returns how many ranks of tensor parallelism share the weights, 0 or 1 for one.
func (w *Weights) Ways() int { return w.cut.Ways }

// units returns this rank's part of n heads or groups of columns. Too many ranks are a fault of the account.
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

// Heads returns this rank's heads of n, each of width d, as a range of heads and of columns.
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

// Subset is a part of a tensor: of its first axis, which falls into groups, some rows of each, or of its
// second axis some columns. The zero value is all of it.
type Subset struct {
	Groups  int
	Rows    sequence.Range // of each group; empty: all
	Columns sequence.Range // empty: all
}

// shape returns the shape of the part of a tensor of the given shape.
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
