package nn

import (
	"math"
	"slices"

	"latentbeam/kernels"
)

// Rope holds the angles of rotary position embedding (Su et al., arXiv:2104.09864) as cosines and sines (..., D/2): channels 2j
// and 2j+1 of a head are rotated by angle j. The leading axes are the axes of the tokens; an axis has length 1 if the angle
// does not depend on it. The zero Rope rotates nothing.
type Rope struct {
	Cos, Sin kernels.Tensor
	halves   []int // see Halves
}

// RopeFreqs returns the n frequencies 10000^(-j/n) of the lucidrains implementation, computed in fp32 as there. Checkpoints
// store them as "rope.freqs".
func RopeFreqs(n int) []float32 {
	out := make([]float32, n)
	for j := range out {
		exponent := float32(2*j) / float32(2*n)
		out[j] = 1 / float32(math.Pow(10000, float64(exponent)))
	}
	return out
}

// RopePositions returns the given indices divided by scale. Index, scale and quotient are rounded to dt.
func RopePositions(dt kernels.DType, at Span, scale float64) []float32 {
	out := make([]float32, at.Len)
	for i := range out {
		out[i] = dt.Round(dt.Round(float32(at.Start+i)) / float32(scale))
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

// NewRope3D returns the angles of a block of tokens (rows, columns, frames, D/2): the first third of the channels depends on
// the frame, the second on the row, the last on the column, each with all of freqs.
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

// NewVideoRope returns the angles of all tokens of a video (T, S, D/2), S row-major over rows and columns: the first channels
// depend on the frame, the next on the row, the last on the column. Each argument has the angles for each position of its axis;
// the axes may have different numbers of angles. Cosines and sines are rounded to dt.
func NewVideoRope(be kernels.Backend, dt kernels.DType, frames, rows, cols [][]float64) Rope {
	n := len(frames[0]) + len(rows[0]) + len(cols[0])
	frameTurns, rowTurns, colTurns := sinCosOf(dt, frames), sinCosOf(dt, rows), sinCosOf(dt, cols)
	size := len(frames) * len(rows) * len(cols) * n
	cos, sin := make([]float32, 0, size), make([]float32, 0, size)
	for _, frame := range frameTurns {
		for _, row := range rowTurns {
			for _, col := range colTurns {
				cos = append(append(append(cos, frame.cos...), row.cos...), col.cos...)
				sin = append(append(append(sin, frame.sin...), row.sin...), col.sin...)
			}
		}
	}
	return uploadRope(be, dt, cos, sin, len(frames), len(rows)*len(cols), n)
}

// sinCos holds the cosines and sines of the angles of one position.
type sinCos struct{ cos, sin []float32 }

// sinCosOf returns the cosines and sines of each position of an axis. A video repeats them at each position of its other axes.
func sinCosOf(dt kernels.DType, positions [][]float64) []sinCos {
	all := make([]sinCos, len(positions))
	for i, angles := range positions {
		for _, angle := range angles {
			all[i].cos = append(all[i].cos, dt.Round(float32(math.Cos(angle))))
			all[i].sin = append(all[i].sin, dt.Round(float32(math.Sin(angle))))
		}
	}
	return all
}

// RopeAngles returns the angles of the positions 0 to n-1: position / scale * 10000^(-j/angles).
func RopeAngles(n, angles int, scale float64) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		for j := range angles {
			out[i] = append(out[i], float64(i)/scale*math.Pow(10000, -float64(j)/float64(angles)))
		}
	}
	return out
}

func appendAngles(cos, sin []float32, dt kernels.DType, freqs []float32, position float32) (_, _ []float32) {
	for _, f := range freqs {
		angle := float64(dt.Round(position * dt.Round(f)))
		cos = append(cos, dt.Round(float32(math.Cos(angle))))
		sin = append(sin, dt.Round(float32(math.Sin(angle))))
	}
	return cos, sin
}

func uploadRope(be kernels.Backend, dt kernels.DType, cos, sin []float32, shape ...int) Rope {
	r := Rope{Cos: be.Alloc(dt, shape...), Sin: be.Alloc(dt, shape...)}
	be.Upload(r.Cos, cos)
	be.Upload(r.Sin, sin)
	return r
}

// Reshape views the angles with other leading axes.
func (r Rope) Reshape(lead ...int) Rope {
	shape := append(slices.Clone(lead), r.Cos.Dim(-1))
	return Rope{r.Cos.Reshape(shape...), r.Sin.Reshape(shape...), r.halves}
}

// Narrow returns the angles of a part of an axis.
func (r Rope) Narrow(axis int, at Span) Rope {
	if r.Cos.IsZero() {
		return r
	}
	return Rope{r.Cos.Narrow(axis, at.Start, at.Len), r.Sin.Narrow(axis, at.Start, at.Len), r.halves}
}

// Rotate rotates the queries and keys qk (..., 2, H, D) in place. The axes of the angles are the last axes before the 2.
func (r Rope) Rotate(be kernels.Backend, qk kernels.Tensor) {
	cos, sin := r.expandTo(qk)
	switch {
	case cos.IsZero():
	case r.halves == nil:
		be.Rope(qk, qk, cos, sin)
	default:
		defer be.Scope()()
		be.Rope(qk, r.paired(be, qk), cos, sin)
	}
}

// Halves returns the angles for queries and keys that pair their channels by halves: the channels are divided into runs, one
// for each axis with the given number of angles, and in a run of 2n channels, channel j is rotated with channel j+n. After the
// rotation the channels of a pair are adjacent; this does not change the products of queries and keys.
func (r Rope) Halves(angles ...int) Rope {
	r.halves = angles
	return r
}

// paired returns x (..., D) reordered so that the channels of a pair are adjacent.
func (r Rope) paired(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	out := be.Alloc(x.DType, x.Shape...)
	lead, at, axes := x.Shape[:len(x.Shape)-1], 0, len(x.Shape)
	order := make([]int, axes+1) // swap the last two axes
	for i := range order {
		order[i] = i
	}
	order[axes-1], order[axes] = axes, axes-1
	for _, n := range r.halves {
		from := x.Narrow(-1, at, 2*n).Reshape(slices.Concat(lead, []int{2, n})...).Permute(order...)
		be.Copy(out.Narrow(-1, at, 2*n).Reshape(slices.Concat(lead, []int{n, 2})...), from)
		at += 2 * n
	}
	return out
}

// expandTo expands the angles to the queries and keys qk (..., 2, H, D): (..., 2, H, D/2). The axes of the angles are the last axes
// before the 2.
func (r Rope) expandTo(qk kernels.Tensor) (cos, sin kernels.Tensor) {
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
