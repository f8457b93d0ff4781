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
	b.rope = rotation{dst: newRows(v[0]), x: newRows(v[1]), cos: newRows(v[2]), sin: newRows(v[3])}
	b.eachSpan(op, b.rope.x.count, b.rope.x.n, b.tasks.rope)
}

// rotation is one Rope call.
type rotation struct{ dst, x, cos, sin rows }

// runRope is the task of Rope.
func (b *Backend) runRope(w *worker, i, end int) {
	r := &b.rope
	row, half := w.floats(0, r.x.n), [2][]float32{w.floats(1, r.cos.n), w.floats(2, r.sin.n)}
	dst, x, cos, sin := r.dst.cursor(i), r.x.cursor(i), r.cos.cursor(i), r.sin.cursor(i)
	for ; i < end; i++ {
		out := dst.target(row)
		b.tier.row.rotate(out, x.read(row), cos.read(half[0]), sin.read(half[1]))
		dst.store(out)
		dst.next()
		x.next()
		cos.next()
		sin.next()
	}
}

// halved reports whether half is full with its last axis halved.
func halved(half, full []int) bool {
	last := len(full) - 1
	return len(half) == last+1 && slices.Equal(half[:last], full[:last]) && half[last] == full[last]/2
}
