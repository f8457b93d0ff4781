package layout

import (
	"fmt"

	"latentbeam/stages/sequence"
)

// SumBlocks is how many parts a sum has that tensor parallelism may cut: the inputs of an attention's output
// projection and of an MLP's second layer. One worker adds the same parts in the same order, so a cut between
// parts changes no bit.
const SumBlocks = 16

// ColumnUnit is the fewest columns of an MLP that stay together, those of one vector register of fp32.
const ColumnUnit = 16

// SumParts cuts an axis of n units (heads, or groups of ColumnUnit columns) into the fixed parts of its sums:
// SumBlocks of them, or n where there are fewer units, which differ by one unit at most.
func SumParts(n int) []sequence.Range {
	return even(n, min(n, SumBlocks))
}

// TensorCut gives each of ways workers its units of an axis of n, in order, borders falling on those of
// SumParts. Uneven counts are fine; a worker may get nothing.
func TensorCut(n, ways int) ([]sequence.Range, error) {
	if n < 1 || ways < 1 {
		return nil, fmt.Errorf("cut %d units over %d workers: give 1 at least of each", n, ways)
	}
	parts := SumParts(n)
	out := make([]sequence.Range, ways)
	for i, r := range even(len(parts), ways) {
		at := n
		if r.Lo < len(parts) {
			at = parts[r.Lo].Lo
		}
		out[i] = sequence.Range{Lo: at, Hi: at}
		if r.Len() > 0 {
			out[i].Hi = parts[r.Hi-1].Hi
		}
	}
	return out, nil
}

// ColumnUnits cuts the width columns of an MLP's hidden layer into units: full ones of ColumnUnit and, where
// the width does not divide, a shorter last one. Columns returns what a range of units covers.
func ColumnUnits(width int) int { return (width + ColumnUnit - 1) / ColumnUnit }

// Columns returns the columns of a range of units of a layer of the given width.
func Columns(r sequence.Range, width int) sequence.Range {
	return sequence.Range{Lo: min(r.Lo*ColumnUnit, width), Hi: min(r.Hi*ColumnUnit, width)}
}

// even shares n things out in order; counts differ by one at most.
func even(n, parts int) []sequence.Range {
	out := make([]sequence.Range, parts)
	for i := range out {
		out[i] = sequence.Range{Lo: i * n / parts, Hi: (i + 1) * n / parts}
	}
	return out
}
