package nn

import (
	"math"
	"slices"

	"latentbeam/kernels"
)

// Rope holds the angles of rotary position embedding (Su et al., arXiv:2104.09864) as cosines and sines
// (..., D/2): channels 2j and 2j+1 of a head turn by angle j. The leading axes are those of the tokens, of
// length 1 where the angle does not depend on them. The zero Rope turns nothing.
type Rope struct {
	Cos, Sin kernels.Tensor
}

// RopeFreqs returns the n frequencies 10000^(-j/n) of the lucidrains implementation, in fp32 as it computes
// them; checkpoints hold them as "rope.freqs".
func RopeFreqs(n int) []float32 {
	out := make([]float32, n)
	for j := range out {
		exponent := float32(2*j) / float32(2*n)
		out[j] = 1 / float32(math.Pow(10000, float64(exponent)))
	}
	return out
}

// RopePositions returns the positions of the given indices over scale, rounded to dt on the way.
func RopePositions(dt kernels.DType, at Span, scale float64) []float32 {
	out := make([]float32, at.Len)
	for i := range out {
		out[i] = Round(dt, Round(dt, float32(at.Start+i))/float32(scale))
	}
	return out
}

// NewRope returns the angles of n positions: (n, D/2). Positions, products, cosines and sines are each
// rounded to dt, as the reference computes them in the model's type.
func NewRope(be kernels.Backend, dt kernels.DType, freqs, positions []float32) Rope {
	n := len(freqs)
	cos, sin := make([]float32, 0, len(positions)*n), make([]float32, 0, len(positions)*n)
	for _, p := range positions {
		cos, sin = appendAngles(cos, sin, dt, freqs, p)
	}
	return uploadRope(be, dt, cos, sin, len(positions), n)
}

// NewRope3D returns the angles of a block of tokens (rows, columns, frames, D/2): the first third of the
// channels turns by the frame, the second by the row, the last by the column, each with all of freqs.
func NewRope3D(be kernels.Backend, dt kernels.DType, freqs, rows, cols, frames []float32) Rope {
	n := 3 * len(freqs)
	size := len(rows) * len(cols) * len(frames) * n
	cos, sin := make([]float32, 0, size), make([]float32, 0, size)
	for _, row := range rows {
		for _, col := range cols {
			for _, frame := range frames {
				cos, sin = appendAngles(cos, sin, dt, freqs, frame)
				cos, sin = appendAngles(cos, sin, dt, freqs, row)
				cos, sin = appendAngles(cos, sin, dt, freqs, col)
			}
		}
	}
	return uploadRope(be, dt, cos, sin, len(rows), len(cols), len(frames), n)
}

func appendAngles(cos, sin []float32, dt kernels.DType, freqs []float32, position float32) (_, _ []float32) {
	for _, f := range freqs {
		angle := float64(Round(dt, position*Round(dt, f)))
		cos = append(cos, Round(dt, float32(math.Cos(angle))))
		sin = append(sin, Round(dt, float32(math.Sin(angle))))
	}
	return cos, sin
}

func uploadRope(be kernels.Backend, dt kernels.DType, cos, sin []float32, shape ...int) Rope {
	r := Rope{be.Alloc(dt, shape...), be.Alloc(dt, shape...)}
	be.Upload(r.Cos, cos)
	be.Upload(r.Sin, sin)
	return r
}

// Reshape views the angles with other leading axes.
func (r Rope) Reshape(lead ...int) Rope {
	shape := append(slices.Clone(lead), r.Cos.Dim(-1))
	return Rope{r.Cos.Reshape(shape...), r.Sin.Reshape(shape...)}
}

// Narrow returns the angles of a part of an axis.
func (r Rope) Narrow(axis int, at Span) Rope {
	if r.Cos.IsZero() {
		return r
	}
	return Rope{r.Cos.Narrow(axis, at.Start, at.Len), r.Sin.Narrow(axis, at.Start, at.Len)}
}

// apply turns the queries and keys qk (..., 2, H, D) in place.
func (r Rope) apply(be kernels.Backend, qk kernels.Tensor) {
	if cos, sin := r.over(qk); !cos.IsZero() {
		be.Rope(qk, qk, cos, sin)
	}
}

// over expands the angles over the queries and keys qk (..., 2, H, D): (..., 2, H, D/2). The axes of the
// angles are the last ones in front of the 2.
func (r Rope) over(qk kernels.Tensor) (cos, sin kernels.Tensor) {
	if r.Cos.IsZero() {
		return cos, sin
	}
	lead := r.Cos.Shape[:len(r.Cos.Shape)-1]
	full := slices.Clone(qk.Shape)
	full[len(full)-1] /= 2
	expand := func(x kernels.Tensor) kernels.Tensor {
		return x.Reshape(slices.Concat(lead, []int{1, 1, x.Dim(-1)})...).Expand(full...)
	}
	return expand(r.Cos), expand(r.Sin)
}
