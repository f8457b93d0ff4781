package cpu

import (
	"slices"

	"latentbeam/kernels"
)

const maxOperands = 3

// nest walks operands of one shape together, in runs of their last axis.
type nest struct {
	views []*view
	outer []int // merged axes but the last
	jumps [maxOperands][]int
	run   int // length of the last merged axis
	steps [maxOperands]int
	count int // runs
}

// newNest merges neighbouring axes that every operand steps through alike.
func newNest(views ...*view) *nest {
	shape := []int{1}
	var strides [maxOperands][]int
	for o := range views {
		strides[o] = []int{0}
	}
	for ax, d := range views[0].Shape {
		if d == 1 {
			continue
		}
		last, merge := len(shape)-1, true
		for o, v := range views {
			merge = merge && (shape[last] == 1 || strides[o][last] == v.Strides[ax]*d)
		}
		if !merge {
			shape = append(shape, 1)
			last++
		}
		shape[last] *= d
		for o, v := range views {
			strides[o] = append(strides[o][:last], v.Strides[ax])
		}
	}
	last := len(shape) - 1
	n := &nest{views: views, outer: shape[:last], run: shape[last], count: 1}
	for _, d := range n.outer {
		n.count *= d
	}
	for o := range views {
		n.jumps[o], n.steps[o] = strides[o][:last], strides[o][last]
	}
	return n
}

// offsets returns where run i begins in each operand.
func (n *nest) offsets(i int) (offs [maxOperands]int) {
	for o, v := range n.views {
		offs[o] = v.Offset
	}
	for ax := len(n.outer) - 1; ax >= 0; ax-- {
		at := i % n.outer[ax]
		i /= n.outer[ax]
		for o := range n.views {
			offs[o] += at * n.jumps[o][ax]
		}
	}
	return offs
}

// maxRun is the longest piece handed to an elementwise function, small enough for the first cache.
const maxRun = 2048

// eachRun calls f for pieces of up to maxRun elements, in any order, each element once.
func (b *Backend) eachRun(op string, n *nest, f func(w *worker, offs [maxOperands]int, length int)) {
	if n.count == 0 || n.run == 0 {
		return
	}
	pieces := (n.run + maxRun - 1) / maxRun
	b.eachSpan(op, n.count*pieces, min(n.run, maxRun), func(w *worker, from, to int) {
		for i := from; i < to; i++ {
			offs := n.offsets(i / pieces)
			start := i % pieces * maxRun
			for o := range n.views {
				offs[o] += start * n.steps[o]
			}
			f(w, offs, min(maxRun, n.run-start))
		}
	})
}

// sameShapes fails unless all operands have dst's shape.
func (b *Backend) sameShapes(op string, dst *view, srcs ...*view) bool {
	for _, s := range srcs {
		if !slices.Equal(s.Shape, dst.Shape) {
			b.fail("%s: source %v for dst %v", op, s.Shape, dst.Shape)
			return false
		}
	}
	return true
}

// Copy copies and converts src into dst.
func (b *Backend) Copy(dst, src kernels.Tensor) {
	b.unary("copy", dst, src, kernels.Identity)
}

// Unary computes dst = op(x).
func (b *Backend) Unary(dst, x kernels.Tensor, op kernels.UnaryOp) {
	b.unary("unary", dst, x, op)
}

func (b *Backend) unary(name string, dst, x kernels.Tensor, op kernels.UnaryOp) {
	v, ok := b.open(name, dst, x)
	if !ok || !b.need(name, []string{"dst", "source"}, v) || !b.sameShapes(name, v[0], v[1]) {
		return
	}
	if op > kernels.GELUTanh {
		b.fail("unary: operation %d is not supported", op)
		return
	}
	n := newNest(v...)
	b.eachRun(name, n, func(w *worker, offs [maxOperands]int, length int) {
		if op == kernels.Identity && copyHalf(v[0], v[1], offs, n.steps, length) {
			return
		}
		src := v[1].read(w.floats(0, length), offs[1], n.steps[1], length)
		if op != kernels.Identity {
			dst := v[0].target(w.floats(0, length), offs[0], n.steps[0], length)
			b.tier.row.apply(dst, src, op)
			src = dst
		}
		v[0].store(src, offs[0], n.steps[0])
	})
}

// copyHalf copies 16-bit elements as they are, where both sides are dense and of one type.
func copyHalf(dst, src *view, offs, steps [maxOperands]int, n int) bool {
	if dst.DType != src.DType || dst.DType == kernels.F32 || steps[0] != 1 || steps[1] != 1 {
		return false
	}
	copy(dst.buf.u16[offs[0]:offs[0]+n], src.buf.u16[offs[1]:])
	return true
}

// Binary computes dst = a op b.
func (b *Backend) Binary(dst, x, y kernels.Tensor, op kernels.BinaryOp) {
	v, ok := b.open("binary", dst, x, y)
	if !ok || !b.need("binary", []string{"dst", "a", "b"}, v) || !b.sameShapes("binary", v[0], v[1:]...) {
		return
	}
	if op > kernels.Mul {
		b.fail("binary: operation %d is not supported", op)
		return
	}
	n := newNest(v...)
	b.eachRun("binary", n, func(w *worker, offs [maxOperands]int, length int) {
		x := v[1].read(w.floats(0, length), offs[1], n.steps[1], length)
		y := v[2].read(w.floats(1, length), offs[2], n.steps[2], length)
		dst := v[0].target(w.floats(0, length), offs[0], n.steps[0], length)
		if op == kernels.Add {
			b.tier.row.add(dst, x, y)
		} else {
			b.tier.row.mul(dst, x, y)
		}
		v[0].store(dst, offs[0], n.steps[0])
	})
}
