package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// maxHeadSize is the greatest row length for which one call for many rows is faster.
const maxHeadSize = 256

// batchable reports whether one call can compute many rows of the two operands: both are dense and of one type for which a
// routine may exist.
func batchable(dst, x *rows) bool {
	return dst.DType == x.DType && dst.DType <= kernels.BF16 && dst.step == 1 && x.step == 1
}

// rmsRoutine returns the tier's routine for RMSNorm of many rows; nil if there is none, or if rows are as fast one by one.
func (n *norm) rmsRoutine() rmsFunc {
	switch {
	case !batchable(&n.dst, &n.x):
	case n.spec.Act == kernels.SiLU:
		return n.math.rmsSilu[n.x.DType]
	case n.spec.Act == kernels.Identity && n.x.n <= maxHeadSize:
		return n.math.rmsHeads[n.x.DType]
	}
	return nil
}

// pointer returns the address of the row and the distance to the next row of its run, in bytes.
func (c *cursor) pointer() (unsafe.Pointer, int) {
	return c.rows.view.pointer(c.off), c.rows.jump * c.rows.DType.Size()
}

// runHeads computes rows from to to of RMSNorm with a weight. Each call computes as many rows as have equal distances and the
// same weight. It reports whether the tier has a routine for this.
func (n *norm) runHeads(w *worker, from, to int) bool {
	own := n.weights.view != nil
	plain := n.spec.Kind == kernels.RMSNorm && (n.weight != nil || own && n.weights.jump == 0) && n.bias == nil &&
		n.scale.view == nil
	routine := n.rmsRoutine()
	if !plain || routine == nil {
		return false
	}
	x, dst, m := n.x.cursor(from), n.dst.cursor(from), n.modulation(w, from)
	for rows := to - from; rows > 0; {
		k := min(rows, x.left, dst.left)
		if own {
			k = min(k, m.weight.left)
		}
		src, srcStride := x.pointer()
		out, dstStride := dst.pointer()
		routine(out, src, dstStride, srcStride, k, n.weightOf(&m), float64(n.spec.Eps))
		x.skip(k)
		dst.skip(k)
		if own {
			m.weight.skip(k)
		}
		rows -= k
	}
	return true
}

// runHeads rotates rows from to to; each call rotates the rows that share their angles.
func (r *rotation) runHeads(w *worker, math *rowMath, from, to int) bool {
	if !batchable(&r.dst, &r.x) || r.x.n > maxHeadSize || math.rotateHeads[r.x.DType] == nil || r.cos.jump != 0 || r.sin.jump != 0 {
		return false
	}
	x, dst, cos, sin := r.x.cursor(from), r.dst.cursor(from), r.cos.cursor(from), r.sin.cursor(from)
	for rows := to - from; rows > 0; {
		k := min(rows, x.left, dst.left, cos.left, sin.left)
		src, srcStride := x.pointer()
		out, dstStride := dst.pointer()
		math.rotateHeads[r.x.DType](out, src, dstStride, srcStride, k,
			cos.read(w.floats(1, r.cos.n)), sin.read(w.floats(2, r.sin.n)))
		x.skip(k)
		dst.skip(k)
		cos.skip(k)
		sin.skip(k)
		rows -= k
	}
	return true
}
