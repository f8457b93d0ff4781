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
		for i := from; i < to; i++ {
			row := s.read(w.floats(0, s.n), s.offset(i), s.step, s.n)
			out := d.target(w.floats(0, s.n), d.offset(i), d.step, s.n)
			b.tier.row.rotate(out, row, c.read(w.floats(1, c.n), c.offset(i), c.step, c.n),
				n.read(w.floats(2, n.n), n.offset(i), n.step, n.n))
			d.store(out, d.offset(i), d.step)
		}
	})
}

// halved reports whether half is full with its last axis halved.
func halved(half, full []int) bool {
	last := len(full) - 1
	return len(half) == last+1 && slices.Equal(half[:last], full[:last]) && half[last] == full[last]/2
}
