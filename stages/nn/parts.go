package nn

import "latentbeam/stages/layout"

// HeadParts returns where the parts of a sum over heads of width d begin, for the output of an attention:
// whole heads stay together. Heads of odd width are summed as one.
func HeadParts(heads, d int) []int {
	if d%2 != 0 {
		return nil
	}
	return parts(heads, func(unit int) int { return unit * d })
}

// ColumnParts returns where the parts of a sum over the columns of a hidden layer begin.
func ColumnParts(hidden int) []int {
	return parts(layout.ColumnUnits(hidden), func(unit int) int { return unit * layout.ColumnUnit })
}

// parts returns where the parts of a sum over n units begin, but for the first.
func parts(n int, column func(unit int) int) (out []int) {
	for _, p := range layout.SumParts(n)[1:] {
		out = append(out, column(p.Lo))
	}
	return out
}
