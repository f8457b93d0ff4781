package nn

import "math"

// SinCos1D returns the positions 0, 1/scale, ... (n-1)/scale as sines then cosines of c/2 frequencies
// 10000^(-j/(c/2)): (n, c), computed in fp64 and rounded once. c must be even.
func SinCos1D(c, n int, scale float64) []float32 {
	out := make([]float32, 0, n*c)
	for i := range n {
		out = appendSinCos(out, float64(i)/scale, c)
	}
	return out
}

// SinCos2D returns the positions of a grid, (rows * cols, c) with row-major positions: the first half of
// the channels encodes the COLUMN, the second the row, each as in SinCos1D. Positions are fp32 before
// they meet the fp64 frequencies, as in the reference. c must be divisible by 4.
func SinCos2D(c, rows, cols int, scale float64) []float32 {
	line := func(n int) []float32 { // (n, c/2)
		out := make([]float32, 0, n*c/2)
		for i := range n {
			out = appendSinCos(out, float64(float32(i)/float32(scale)), c/2)
		}
		return out
	}
	byCol, byRow := line(cols), line(rows)
	out := make([]float32, 0, rows*cols*c)
	for row := range rows {
		for col := range cols {
			out = append(out, byCol[col*c/2:][:c/2]...)
			out = append(out, byRow[row*c/2:][:c/2]...)
		}
	}
	return out
}

// appendSinCos appends c/2 sines and c/2 cosines of pos.
func appendSinCos(out []float32, pos float64, c int) []float32 {
	half := c / 2
	angle := func(j int) float64 { return pos * (1 / math.Pow(10000, float64(j)/float64(half))) }
	for j := range half {
		out = append(out, float32(math.Sin(angle(j))))
	}
	for j := range half {
		out = append(out, float32(math.Cos(angle(j))))
	}
	return out
}
