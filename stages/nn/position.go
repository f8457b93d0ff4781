package nn

import (
	"math"

	"latentbeam/kernels"
)

// Span is a run of indices of an axis. Positions are always those of the whole video, also where a worker
// holds only a part of it.
type Span struct {
	Start, Len int
}

// SinCos1D returns the positions i/scale of the indices at as sines then cosines of c/2 frequencies
// 10000^(-j/(c/2)): (n, c), computed in fp64 and rounded once, as STDiT of Open-Sora 1.0 does. c must be even.
func SinCos1D(c int, at Span, scale float64) []float32 {
	out := make([]float32, 0, at.Len*c)
	for i := range at.Len {
		out = appendSinCos(out, float64(at.Start+i)/scale, c)
	}
	return out
}

// SinCos2D returns the positions of patches of a row-major grid with cols columns, (n, c): the first half of
// the channels encodes the COLUMN, the second the row, each as in SinCos1D. Positions are fp32 before they
// meet the fp64 frequencies, as in STDiT of Open-Sora 1.0. c must be divisible by 4.
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

// gridPositions joins the halves of each patch: its column's of byCol and its row's of byRow, (n, c/2) each.
func gridPositions(c, cols int, at Span, byCol, byRow []float32) []float32 {
	out := make([]float32, 0, at.Len*c)
	for i := at.Start; i < at.Start+at.Len; i++ {
		out = append(out, byCol[i%cols*c/2:][:c/2]...)
		out = append(out, byRow[i/cols*c/2:][:c/2]...)
	}
	return out
}

// SinCosGrid returns the positions of patches of a row-major grid of rows x cols, (n, c), as Open-Sora does
// from 1.1 on: each axis is stretched to round(sqrt(rows cols)) positions, so that every aspect ratio covers
// the same range, and divided by scale. Column first, as in SinCos2D. All is fp32, but the frequencies, which
// the reference keeps in the model's type dt. c must be divisible by 4.
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
