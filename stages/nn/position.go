package nn

import (
	"math"

	"latentbeam/kernels"
)

// Span is a range of indices on an axis. Positions always refer to the whole video, also if a worker has only a part of it.
type Span struct {
	Start, Len int
}

// SinCos1D returns the positions i/scale of the indices at as c/2 sines, then c/2 cosines, with the frequencies
// 10000^(-j/(c/2)): (n, c). It computes in fp64 and rounds once, as STDiT of Open-Sora 1.0 does. c must be even.
func SinCos1D(c int, at Span, scale float64) []float32 {
	out := make([]float32, 0, at.Len*c)
	for i := range at.Len {
		out = appendSinCos(out, float64(at.Start+i)/scale, c)
	}
	return out
}

// SinCos2D returns the positions of patches of a row-major grid with cols columns, (n, c): the first half of the channels
// encodes the COLUMN, the second the row, each as in SinCos1D. Positions are rounded to fp32 before they are multiplied by the
// fp64 frequencies, as in STDiT of Open-Sora 1.0. c must be divisible by 4.
func SinCos2D(c, cols int, at Span, scale float64) []float32 {
	line := func(n int) []float32 { // (n, c/2)
		out := make([]float32, 0, n*c/2)
		for i := range n {
			out = appendSinCos(out, float64(float32(i)/float32(scale)), c/2)
		}
		return out
	}
	rows := (at.Start + at.Len + cols - 1) / cols
	return gridPositions(c, cols, at, line(cols), line(rows))
}

// gridPositions joins the halves of each patch: its column's from byCol and its row's from byRow, (n, c/2) each.
func gridPositions(c, cols int, at Span, byCol, byRow []float32) []float32 {
	out := make([]float32, 0, at.Len*c)
	for i := at.Start; i < at.Start+at.Len; i++ {
		out = append(out, byCol[i%cols*c/2:][:c/2]...)
		out = append(out, byRow[i/cols*c/2:][:c/2]...)
	}
	return out
}

// SinCosGrid returns the positions of patches of a row-major grid of rows x cols, (n, c), as Open-Sora does from 1.1 on: each
// axis is stretched to round(sqrt(rows cols)) positions, so that every aspect ratio covers the same range, and divided by
// scale. The column comes first, as in SinCos2D. All values are fp32 except the frequencies, which the reference stores in the
// model's type dt. c must be divisible by 4.
func SinCosGrid(dt kernels.DType, c, rows, cols int, at Span, scale float64) []float32 {
	base := math.RoundToEven(math.Sqrt(float64(rows * cols)))
	freqs := make([]float32, c/4)
	for j := range freqs {
		exponent := float32(2*j) / float32(c/2)
		freqs[j] = dt.Round(1 / float32(math.Pow(10000, float64(exponent))))
	}
	line := func(n int) []float32 { // (n, c/2)
		out := make([]float32, 0, n*c/2)
		for i := range n {
			position := float32(i) / float32(scale) * float32(base/float64(n))
			for _, f := range freqs {
				out = append(out, float32(math.Sin(float64(position*f))))
			}
			for _, f := range freqs {
				out = append(out, float32(math.Cos(float64(position*f))))
			}
		}
		return out
	}
	return gridPositions(c, cols, at, line(cols), line(rows))
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
