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
	scale, shift rows      // of no view where there is none
	weight, bias []float32 // nil where there is none

	// Of GroupNorm.
	pixels, blocks int // of an image
	partial        []moments
	means, factors []float32 // of the channels of each image
}

// Norm normalises x into dst.
func (b *Backend) Norm(dst, x kernels.Tensor, spec kernels.NormSpec) {
	const op = "norm"
	v, ok := b.open(op, dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift)
	if !ok || !b.need(op, []string{"dst", "x"}, v) || !b.sameShapes(op, v[0], v[1]) {
		return
	}
	if !b.newNorm(spec, v) || b.norm.x.count == 0 || b.norm.x.n == 0 {
		return
	}
	if spec.Kind == kernels.GroupNorm {
		b.groupNorm(&b.norm)
		return
	}
	b.eachSpan(op, b.norm.x.count, b.norm.x.n, b.tasks.norm)
}

// runNorm is the task of LayerNorm and RMSNorm.
func (b *Backend) runNorm(w *worker, from, to int) {
	n := &b.norm
	if n.runHeads(from, to) {
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

// newNorm checks the operands dst, x, weight, bias, scale, shift and makes them b.norm.
func (b *Backend) newNorm(spec kernels.NormSpec, v []*view) bool {
	shape := v[1].Shape
	if len(shape) == 0 {
		b.fail("norm: x has no axis")
		return false
	}
	b.norm = norm{spec: spec, math: &b.tier.row, dst: newRows(v[0]), x: newRows(v[1])}
	n := &b.norm
	c := n.x.n
	for i, p := range v[2:4] {
		if p != nil && (len(p.Shape) != 1 || p.Shape[0] != c) {
			b.fail("norm: %s %v for x %v", []string{"weight", "bias"}[i], p.Shape, shape)
			return false
		}
	}
	switch scale, shift := v[4], v[5]; {
	case spec.Kind > kernels.GroupNorm:
		b.fail("norm: kind %d is not supported", spec.Kind)
	case spec.Act > kernels.Sigmoid:
		b.fail("norm: unary operation %d is not supported", spec.Act)
	case spec.Kind == kernels.GroupNorm && (len(shape) != 4 || spec.Groups < 1 || c%spec.Groups != 0):
		b.fail("norm: group norm of %d groups needs x (N, H, W, C) with C a multiple, x is %v", spec.Groups, shape)
	case (scale == nil) != (shift == nil):
		b.fail("norm: scale and shift go together")
	case scale != nil && (!slices.Equal(scale.Shape, shape) || !slices.Equal(shift.Shape, shape)):
		b.fail("norm: scale %v and shift %v for x %v", scale.Shape, shift.Shape, shape)
	case scale != nil:
		n.scale, n.shift = newRows(scale), newRows(shift)
	}
	call := b.call()
	if v[2] != nil {
		n.weight = v[2].read(call.vector(0, c), v[2].Offset, v[2].Strides[0], c)
	}
	if v[3] != nil {
		n.bias = v[3].read(call.vector(1, c), v[3].Offset, v[3].Strides[0], c)
	}
	return b.err == nil
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
	switch {
	case n.weight != nil && n.bias != nil:
		n.math.affine(out, row, n.weight, n.bias, mean, factor)
	case n.weight != nil:
		n.math.weigh(out, row, n.weight, mean, factor)
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

// modulation holds the scale and shift of the present row as fp32. Rows as a rule share them, so they are
// read again only when they change.
type modulation struct {
	worker       *worker
	on           bool
	scale, shift cursor
	scaleAt      int // where scaleRow and shiftRow were read
	shiftAt      int
	scaleRow     []float32
	shiftRow     []float32
	factorAt     int // where factorRow was made of scaleRow
	factorRow    []float32
}

// modulation returns that of row i.
func (n *norm) modulation(w *worker, i int) modulation {
	if n.scale.view == nil {
		return modulation{}
	}
	return modulation{worker: w, on: true, scale: n.scale.cursor(i), shift: n.shift.cursor(i)}
}

func (m *modulation) next() {
	if m.on {
		m.scale.next()
		m.shift.next()
	}
}

func (m *modulation) rows() (scale, shift []float32) {
	if m.scaleRow == nil || m.scaleAt != m.scale.off || m.shiftAt != m.shift.off {
		m.scaleAt, m.shiftAt = m.scale.off, m.shift.off
		m.scaleRow = m.scale.read(m.worker.floats(1, m.scale.rows.n))
		m.shiftRow = m.shift.read(m.worker.floats(2, m.shift.rows.n))
	}
	return m.scaleRow, m.shiftRow
}

func inverseRoot(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}
