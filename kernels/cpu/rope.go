package cpu

import (
	"slices"

	"latentbeam/kernels"
)

// Rope rotates neighbouring channels of x by the angles of cos and sin.
func (b *Backend) Rope(dst, x, cos, sin kernels.Tensor) {
	const op = "rope"
	v, ok := b.open(op, dst, x, cos, sin)
	if !ok || !b.need(op, []string{"dst", "x", "cos", "sin"}, v) || !b.sameShapes(op, v[0], v[1]) {
		return
	}
	if last := len(x.Shape) - 1; last < 0 || x.Shape[last]%2 != 0 || !halved(cos.Shape, x.Shape) ||
		!halved(sin.Shape, x.Shape) {
		b.fail("rope: x %v, cos %v and sin %v are not (..., D) of even D and (..., D/2) twice",
			x.Shape, cos.Shape, sin.Shape)
		return
	}
	d, s, c, n := newRows(v[0]), newRows(v[1]), newRows(v[2]), newRows(v[3])
	b.eachSpan(op, s.count, s.n, func(w *worker, from, to int) {
		row := w.floats(0, s.n)
		for i := from; i < to; i++ {
			s.load(row, s.offset(i), s.step)
			rotate(row, c.read(w.floats(1, c.n), c.offset(i), c.step, c.n),
				n.read(w.floats(2, n.n), n.offset(i), n.step, n.n))
			d.store(row, d.offset(i), d.step)
		}
	})
}

// halved reports whether half is full with its last axis halved.
func halved(half, full []int) bool {
	last := len(full) - 1
	return len(half) == last+1 && slices.Equal(half[:last], full[:last]) && half[last] == full[last]/2
}

// rotate turns the pairs (row[2j], row[2j+1]).
func rotate(row, cos, sin []float32) {
	for j, c := range cos {
		x, y, s := row[2*j], row[2*j+1], sin[j]
		row[2*j] = float32(x*c) - float32(y*s)
		row[2*j+1] = float32(y*c) + float32(x*s)
	}
}
