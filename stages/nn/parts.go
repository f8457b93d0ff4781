package nn

import "latentbeam/stages/layout"

// HeadParts returns the starts of the parts of a sum over heads of width d, for the output of an attention. A head is never
// divided. If d is odd, all heads are one part.
func HeadParts(heads, d int) []int {
	if d%2 != 0 {
		return nil
	}
	return parts(heads, func(unit int) int { return unit * d })
}

// ColumnParts returns the starts of the parts of a sum over the columns of a hidden layer.
func ColumnParts(hidden int) []int {
	return parts(layout.ColumnUnits(hidden), func(unit int) int { return unit * layout.ColumnUnit })
}

// parts returns the starts of the parts of a sum over n units, without the first start.
func parts(n int, column func(unit int) int) (out []int) {
	for _, p := range layout.SumParts(n)[1:] {
		out = append(out, column(p.Lo))
	}
	return out
}
