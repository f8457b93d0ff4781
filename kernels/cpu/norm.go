package cpu

import (
	"math"
	"slices"

	"latentbeam/kernels"
)

// groupBlock is the number of pixels whose sums are taken together before blocks are added in index order.
const groupBlock = 64

// norm is one Norm call, its operands as rows of channels.
type norm struct {
	spec         kernels.NormSpec
	dst, x       rows
	scale, shift *rows
	weight, bias []float32
}

// Norm normalises x into dst.
func (b *Backend) Norm(dst, x kernels.Tensor, spec kernels.NormSpec) {
	const op = "norm"
	v, ok := b.open(op, dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift)
	if !ok || !b.need(op, []string{"dst", "x"}, v) || !b.sameShapes(op, v[0], v[1]) {
		return
	}
	n, ok := b.newNorm(spec, v)
	if !ok {
		return
	}
	if spec.Kind == kernels.GroupNorm {
		b.groupNorm(n)
		return
	}
	b.eachSpan(op, n.x.count, n.x.n, func(w *worker, from, to int) {
		for i := from; i < to; i++ {
			row := w.floats(0, n.x.n)
			n.x.load(row, n.x.offset(i), n.x.step)
			if spec.Kind == kernels.RMSNorm {
				rmsNorm(row, spec.Eps)
			} else {
				layerNorm(row, spec.Eps)
			}
			n.finish(w, row, i)
		}
	})
}

// newNorm checks the operands dst, x, weight, bias, scale, shift.
func (b *Backend) newNorm(spec kernels.NormSpec, v []*view) (*norm, bool) {
	shape := v[1].Shape
	if len(shape) == 0 {
		b.fail("norm: x has no axis")
		return nil, false
	}
	n := &norm{spec: spec, dst: newRows(v[0]), x: newRows(v[1])}
	c := n.x.n
	for i, p := range v[2:4] {
		if p != nil && !slices.Equal(p.Shape, []int{c}) {
			b.fail("norm: %s %v for x %v", []string{"weight", "bias"}[i], p.Shape, shape)
			return nil, false
		}
	}
	switch scale, shift := v[4], v[5]; {
	case spec.Kind > kernels.GroupNorm:
		b.fail("norm: kind %d is not supported", spec.Kind)
	case spec.Act > kernels.GELUTanh:
		b.fail("norm: unary operation %d is not supported", spec.Act)
	case spec.Kind == kernels.GroupNorm && (len(shape) != 4 || spec.Groups < 1 || c%spec.Groups != 0):
		b.fail("norm: group norm of %d groups needs x (N, H, W, C) with C a multiple, x is %v", spec.Groups, shape)
	case (scale == nil) != (shift == nil):
		b.fail("norm: scale and shift go together")
	case scale != nil && (!slices.Equal(scale.Shape, shape) || !slices.Equal(shift.Shape, shape)):
		b.fail("norm: scale %v and shift %v for x %v", scale.Shape, shift.Shape, shape)
	case scale != nil:
		r, s := newRows(scale), newRows(shift)
		n.scale, n.shift = &r, &s
	}
	if v[2] != nil {
		n.weight = v[2].read(make([]float32, c), v[2].Offset, v[2].Strides[0], c)
	}
	if v[3] != nil {
		n.bias = v[3].read(make([]float32, c), v[3].Offset, v[3].Strides[0], c)
	}
	return n, b.err == nil
}

// finish applies weight, bias, modulation and activation to a normalised row and stores it as row i.
func (n *norm) finish(w *worker, row []float32, i int) {
	for j, x := range n.weight {
		row[j] = float32(row[j] * x)
	}
	for j, x := range n.bias {
		row[j] += x
	}
	if n.scale != nil {
		for j, s := range n.scale.read(w.floats(1, len(row)), n.scale.offset(i), n.scale.step, len(row)) {
			row[j] = float32(row[j] * (1 + s))
		}
		for j, s := range n.shift.read(w.floats(1, len(row)), n.shift.offset(i), n.shift.step, len(row)) {
			row[j] += s
		}
	}
	activate(row, n.spec.Act)
	n.dst.store(row, n.dst.offset(i), n.dst.step)
}

// layerNorm makes the mean of row 0 and its variance 1.
func layerNorm(row []float32, eps float32) {
	mean := sum(row) / float64(len(row))
	variance := sumSquares(row, mean) / float64(len(row))
	standardize(row, float32(mean), inverseRoot(variance, eps))
}

// rmsNorm makes the mean square of row 1.
func rmsNorm(row []float32, eps float32) {
	factor := inverseRoot(sumSquares(row, 0)/float64(len(row)), eps)
	for i, x := range row {
		row[i] = float32(x * factor)
	}
}

func inverseRoot(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}

func standardize(row []float32, mean, factor float32) {
	for i, x := range row {
		row[i] = float32((x - mean) * factor)
	}
}

// sum adds row in four lanes, so that one addition need not wait for the one before.
func sum(row []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(row) >= 4 {
		s0 += float64(row[0])
		s1 += float64(row[1])
		s2 += float64(row[2])
		s3 += float64(row[3])
		row = row[4:]
	}
	for _, x := range row {
		s0 += float64(x)
	}
	return (s0 + s1) + (s2 + s3)
}

// sumSquares adds (x - mean)^2 over row in four lanes.
func sumSquares(row []float32, mean float64) float64 {
	var s0, s1, s2, s3 float64
	for len(row) >= 4 {
		d0, d1 := float64(row[0])-mean, float64(row[1])-mean
		d2, d3 := float64(row[2])-mean, float64(row[3])-mean
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
		row = row[4:]
	}
	for _, x := range row {
		d := float64(x) - mean
		s0 += float64(d * d)
	}
	return (s0 + s1) + (s2 + s3)
}

// moments are the sums of a group's values and of their squares.
type moments struct{ sum, squares float64 }

// groupNorm takes the moments of each group in fixed blocks of pixels, adds the blocks in index order and
// normalises pixel by pixel. Squares are summed in float64, where mean^2 may exceed the variance a
// million times before fp32 results notice.
func (b *Backend) groupNorm(n *norm) {
	images, groups, c := n.x.Shape[0], n.spec.Groups, n.x.n
	pixels := n.x.Shape[1] * n.x.Shape[2]
	blocks := (pixels + groupBlock - 1) / groupBlock
	partial := make([]moments, images*blocks*groups)
	b.each("norm", images*blocks, func(w *worker, t int) {
		first := t % blocks * groupBlock
		out := partial[t*groups : (t+1)*groups]
		for p := first; p < min(pixels, first+groupBlock); p++ {
			row := n.x.read(w.floats(0, c), n.x.offset(t/blocks*pixels+p), n.x.step, c)
			for g := range out {
				part := row[g*c/groups : (g+1)*c/groups]
				out[g].sum += sum(part)
				out[g].squares += sumSquares(part, 0)
			}
		}
	})
	means, factors := make([]float32, images*c), make([]float32, images*c)
	for i := range images {
		n.combine(partial[i*blocks*groups:(i+1)*blocks*groups], float64(pixels*c/groups),
			means[i*c:(i+1)*c], factors[i*c:(i+1)*c])
	}
	b.eachSpan("norm", images*pixels, c, func(w *worker, from, to int) {
		row := w.floats(0, c)
		for i := from; i < to; i++ {
			n.x.load(row, n.x.offset(i), n.x.step)
			at := i / pixels * c
			mean, factor := means[at:at+c], factors[at:at+c]
			for j, x := range row {
				row[j] = float32((x - mean[j]) * factor[j])
			}
			n.finish(w, row, i)
		}
	})
}

// combine adds one image's blocks in index order and spreads mean and 1/sqrt(var + eps) over the channels.
func (n *norm) combine(partial []moments, count float64, means, factors []float32) {
	groups := n.spec.Groups
	for g := range groups {
		var m moments
		for i := g; i < len(partial); i += groups {
			m.sum += partial[i].sum
			m.squares += partial[i].squares
		}
		mean := m.sum / count
		variance := max(0, m.squares/count-float64(mean*mean))
		for j := g * len(means) / groups; j < (g+1)*len(means)/groups; j++ {
			means[j], factors[j] = float32(mean), inverseRoot(variance, n.spec.Eps)
		}
	}
}
