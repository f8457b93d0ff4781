package cpu

import (
	"math"

	"latentbeam/kernels"
)

// norm is one Norm call with its operands as rows of channels.
type norm struct {
	spec         kernels.NormSpec
	math         *rowMath
	dst, x       rows
	scale, shift rows      // without a view if there are none
	weights      rows      // set if each row has its own weight; without a view if rows share weight
	weight, bias []float32 // nil if there is none

	// GroupNorm only.
	pixels, blocks int // of an image
	partial        []moments
	means, factors []float32 // of the channels of each image
}

// Norm normalises x into dst.
func (b *Backend) Norm(dst, x kernels.Tensor, spec kernels.NormSpec) {
	const op = "norm"
	v, ok := b.resolve(op, dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift, spec.Cos, spec.Sin)
	if !ok || !b.checkPresent(op, []string{"dst", "x"}, v) {
		return
	}
	if err := spec.Check(&dst, &x); err != nil {
		b.fail("norm: %w", err)
		return
	}
	b.newNorm(spec, v)
	n := &b.norm
	switch {
	case n.x.count == 0 || n.x.n == 0:
	case spec.Kind == kernels.GroupNorm:
		b.groupNorm(n)
	case v[6] != nil:
		b.ropeNorm(v, spec.RopeFirst)
	default:
		b.eachSpan(op, n.x.count, n.x.n, b.tasks.norm)
	}
}

// runNorm is the task of LayerNorm and RMSNorm.
func (b *Backend) runNorm(w *worker, from, to int) {
	n := &b.norm
	if n.runHeads(w, from, to) {
		return
	}
	x, dst, m := n.x.cursor(from), n.dst.cursor(from), n.modulation(w, from)
	for range to - from {
		n.row(w, &x, &dst, &m)
		x.next()
		dst.next()
		m.next()
	}
}

// newNorm sets b.norm to the operands dst, x, weight, bias, scale, shift, which fit the spec.
func (b *Backend) newNorm(spec kernels.NormSpec, v []*view) {
	b.norm = norm{spec: spec, math: &b.tier.row, dst: newRows(v[0]), x: newRows(v[1])}
	n, call := &b.norm, b.callScratch()
	switch c := n.x.n; {
	case v[2] == nil:
	case spec.WeightOfRows(&v[1].Tensor):
		n.weights = newRows(v[2])
	default:
		n.weight = v[2].read(call.vector(0, c), v[2].Offset, v[2].Strides[0], c)
	}
	if v[3] != nil {
		n.bias = v[3].read(call.vector(1, n.x.n), v[3].Offset, v[3].Strides[0], n.x.n)
	}
	if v[4] != nil {
		n.scale, n.shift = newRows(v[4]), newRows(v[5])
	}
}

// row normalises a row over its channels: around the mean for LayerNorm, around zero for RMSNorm.
func (n *norm) row(w *worker, x, dst *cursor, m *modulation) {
	count, scratch := float64(n.x.n), w.floats(0, n.x.n)
	row := x.read(scratch)
	mean := 0.0
	if n.spec.Kind == kernels.LayerNorm {
		mean = n.math.sum(row) / count
	}
	factor := inverseRoot(n.math.squares(row, mean)/count, n.spec.Eps)
	if n.fusedRow(w, m, dst, row, float32(mean), factor) {
		return
	}
	out := dst.target(scratch)
	if n.dst.DType == kernels.F32 {
		n.scaleRow(m, out, row, float32(mean), factor)
	} else {
		n.roundedRow(w, m, out, row, float32(mean), factor)
	}
	n.math.activate(out, n.spec.Act)
	dst.store(out)
}

// scaleRow standardises a row and applies weight, bias and modulation.
func (n *norm) scaleRow(m *modulation, out, row []float32, mean, factor float32) {
	switch weight := n.weightOf(m); {
	case weight != nil && n.bias != nil:
		n.math.affine(out, row, weight, n.bias, mean, factor)
	case weight != nil:
		n.math.weigh(out, row, weight, mean, factor)
	case n.bias != nil:
		n.math.standard(out, row, mean, factor)
		n.math.add(out, out, n.bias)
	case n.scale.view == nil:
		n.math.standard(out, row, mean, factor)
	default:
		scale, shift := m.rows()
		n.math.modulate(out, row, scale, shift, mean, factor)
		return
	}
	if n.scale.view != nil {
		scale, shift := m.rows()
		n.math.modulate(out, out, scale, shift, 0, 1)
	}
}

func inverseRoot(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}
