package cpu

import (
	"math"
	"slices"

	"latentbeam/kernels"
)

// norm is one Norm call, its operands as rows of channels.
type norm struct {
	spec         kernels.NormSpec
	math         *rowMath
	dst, x       rows
	scale, shift *rows
	weight, bias []float32 // nil where there is none
}

// Norm normalises x into dst.
func (b *Backend) Norm(dst, x kernels.Tensor, spec kernels.NormSpec) {
	const op = "norm"
	v, ok := b.open(op, dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift)
	if !ok || !b.need(op, []string{"dst", "x"}, v) || !b.sameShapes(op, v[0], v[1]) {
		return
	}
	n, ok := b.newNorm(spec, v)
	if !ok || n.x.count == 0 || n.x.n == 0 {
		return
	}
	if spec.Kind == kernels.GroupNorm {
		b.groupNorm(n)
		return
	}
	b.eachSpan(op, n.x.count, n.x.n, func(w *worker, from, to int) {
		for i := from; i < to; i++ {
			n.row(w, i)
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
	n := &norm{spec: spec, math: &b.tier.row, dst: newRows(v[0]), x: newRows(v[1])}
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
	call := b.call()
	if v[2] != nil {
		n.weight = v[2].read(call.vector(0, c), v[2].Offset, v[2].Strides[0], c)
	}
	if v[3] != nil {
		n.bias = v[3].read(call.vector(1, c), v[3].Offset, v[3].Strides[0], c)
	}
	return n, b.err == nil
}

// row normalises row i over its channels: the mean and the squares around it for LayerNorm, the mean
// square for RMSNorm.
func (n *norm) row(w *worker, i int) {
	count := float64(n.x.n)
	row := n.x.read(w.floats(0, n.x.n), n.x.offset(i), n.x.step, n.x.n)
	mean := 0.0
	if n.spec.Kind == kernels.LayerNorm {
		mean = n.math.sum(row) / count
	}
	factor := inverseRoot(n.math.squares(row, mean)/count, n.spec.Eps)
	out := n.dst.target(w.floats(0, len(row)), n.dst.offset(i), n.dst.step, len(row))
	n.scaleRow(w, out, row, i, float32(mean), factor)
	n.math.activate(out, n.spec.Act)
	n.dst.store(out, n.dst.offset(i), n.dst.step)
}

// scaleRow standardises row i and applies weight, bias and modulation.
func (n *norm) scaleRow(w *worker, out, row []float32, i int, mean, factor float32) {
	switch {
	case n.weight != nil && n.bias != nil:
		n.math.affine(out, row, n.weight, n.bias, mean, factor)
	case n.weight != nil:
		n.math.weigh(out, row, n.weight, mean, factor)
	case n.bias != nil:
		n.math.standard(out, row, mean, factor)
		n.math.add(out, out, n.bias)
	case n.scale == nil:
		n.math.standard(out, row, mean, factor)
	default:
		n.modulate(w, out, row, i, mean, factor)
		return
	}
	if n.scale != nil {
		n.modulate(w, out, out, i, 0, 1)
	}
}

// modulate is the last step of row i where there are scale and shift.
func (n *norm) modulate(w *worker, out, row []float32, i int, mean, factor float32) {
	scale := n.scale.read(w.floats(1, len(row)), n.scale.offset(i), n.scale.step, len(row))
	shift := n.shift.read(w.floats(2, len(row)), n.shift.offset(i), n.shift.step, len(row))
	n.math.modulate(out, row, scale, shift, mean, factor)
}

func inverseRoot(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}
