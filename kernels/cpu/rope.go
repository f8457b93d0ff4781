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
	to, from, cosines, sines := newRows(v[0]), newRows(v[1]), newRows(v[2]), newRows(v[3])
	b.eachSpan(op, from.count, from.n, func(w *worker, i, end int) {
		row, half := w.floats(0, from.n), [2][]float32{w.floats(1, cosines.n), w.floats(2, sines.n)}
		d, x, c, s := to.cursor(i), from.cursor(i), cosines.cursor(i), sines.cursor(i)
		for ; i < end; i++ {
			out := d.target(row)
			b.tier.row.rotate(out, x.read(row), c.read(half[0]), s.read(half[1]))
			d.store(out)
			d.next()
			x.next()
			c.next()
			s.next()
		}
	})
}

// halved reports whether half is full with its last axis halved.
func halved(half, full []int) bool {
	last := len(full) - 1
	return len(half) == last+1 && slices.Equal(half[:last], full[:last]) && half[last] == full[last]/2
}
