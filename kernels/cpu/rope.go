package cpu

import "latentbeam/kernels"

// Rope rotates neighbouring channels of x by the angles of cos and sin.
func (b *Backend) Rope(dst, x, cos, sin kernels.Tensor) {
	const op = "rope"
	v, ok := b.resolve(op, dst, x, cos, sin)
	if !ok || !b.checkPresent(op, []string{"dst", "x", "cos", "sin"}, v) || !b.sameShapes(op, v[0], v[1]) {
		return
	}
	if err := kernels.CheckRope(&x, &cos, &sin); err != nil {
		b.fail("rope: %w", err)
		return
	}
	b.rope = newRotation(v[0], v[1], v[2], v[3])
	b.eachSpan(op, b.rope.x.count, b.rope.x.n, b.tasks.rope)
}

// rotation is one Rope call.
type rotation struct{ dst, x, cos, sin rows }

func newRotation(dst, x, cos, sin *view) rotation {
	return rotation{dst: newRows(dst), x: newRows(x), cos: newRows(cos), sin: newRows(sin)}
}

// runRope is the task of Rope.
func (b *Backend) runRope(w *worker, i, end int) {
	r := &b.rope
	if r.runHeads(w, &b.tier.row, i, end) {
		return
	}
	dst, x, cos, sin := r.dst.cursor(i), r.x.cursor(i), r.cos.cursor(i), r.sin.cursor(i)
	for ; i < end; i++ {
		scratch := w.floats(0, r.x.n)
		r.rotate(w, &b.tier.row, &dst, x.read(scratch), cos.read(w.floats(1, r.cos.n)), sin.read(w.floats(2, r.sin.n)))
		dst.next()
		x.next()
		cos.next()
		sin.next()
	}
}

// rotate stores x rotated. Products are rounded to dst's type if it has 16 bits.
func (r *rotation) rotate(w *worker, math *rowMath, dst *cursor, x, cos, sin []float32) {
	if r.dst.DType == kernels.BF16 && math.rotateBF16 != nil {
		half := dst.halfTarget(w)
		math.rotateBF16(half, x, cos, sin)
		dst.storeHalf(half)
		return
	}
	out := dst.target(w.floats(0, len(x)))
	if r.dst.DType == kernels.F32 {
		math.rotate(out, x, cos, sin)
	} else {
		r.rounded(w, math, out, x, cos, sin)
	}
	dst.store(out)
}

// rounded rotates the pairs of src as rowMath.rotate does, but rounds each product to dst's type of 16 bits.
func (r *rotation) rounded(w *worker, math *rowMath, dst, src, cos, sin []float32) {
	swapped, factors := w.floats(3, len(src)), w.floats(4, len(src))
	for j, s := range sin {
		swapped[2*j], swapped[2*j+1] = -src[2*j+1], src[2*j]
		factors[2*j], factors[2*j+1] = s, s
	}
	math.mul(swapped, swapped, factors)
	w.round(math, r.dst.DType, swapped)
	for j, c := range cos {
		factors[2*j], factors[2*j+1] = c, c
	}
	math.mul(dst, src, factors)
	w.round(math, r.dst.DType, dst)
	math.add(dst, dst, swapped)
}
