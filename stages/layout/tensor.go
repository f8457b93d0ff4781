package layout

import (
	"fmt"

	"latentbeam/stages/sequence"
)

// SumBlocks is the number of parts of a sum that tensor parallelism may split: the inputs of an attention's output projection
// and of an MLP's second layer. A single worker adds the same parts in the same order, so a split between parts changes no bit.
const SumBlocks = 16

// ColumnUnit is the smallest number of columns of an MLP that are never separated: one vector register of fp32.
const ColumnUnit = 16

// SumParts divides an axis of n units (heads, or groups of ColumnUnit columns) into the fixed parts of its sums: SumBlocks
// parts, or n if there are fewer units. Their lengths differ by at most one unit.
func SumParts(n int) []sequence.Range {
	return even(n, min(n, SumBlocks))
}

// TensorCut gives each of ways workers a range of the n units of an axis, in order. Ranges end where parts of SumParts end.
// They may have different lengths; a worker may get none.
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

// ColumnUnits returns how many units the width columns of an MLP's hidden layer have: units of ColumnUnit columns and, if width
// is not a multiple, a shorter last one. Columns returns the columns of a range of units.
func ColumnUnits(width int) int { return (width + ColumnUnit - 1) / ColumnUnit }

// Columns returns the columns of a range of units of a layer of the given width.
func Columns(r sequence.Range, width int) sequence.Range {
	return sequence.Range{Lo: min(r.Lo*ColumnUnit, width), Hi: min(r.Hi*ColumnUnit, width)}
}

// even divides n things into ranges in order. Their lengths differ by at most one.
func even(n, parts int) []sequence.Range {
	out := make([]sequence.Range, parts)
	for i := range out {
		out[i] = sequence.Range{Lo: i * n / parts, Hi: (i + 1) * n / parts}
	}
	return out
}
