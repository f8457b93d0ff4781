package cpu

import (
	"slices"

	"latentbeam/kernels"
)

const maxOperands = 3

// nest iterates over operands of one shape together, in runs along the last axis.
type nest struct {
	views [maxOperands]*view
	shape [maxAxes]int              // merged axes
	jumps [maxOperands][maxAxes]int // strides of each operand
	axes  int                       // number of axes of shape, at least one
	run   int                       // length of the last axis
	steps [maxOperands]int          // strides of the last axis
	count int                       // number of runs
}

// reset makes n the nest of the given operands. It merges neighbouring axes whose strides allow it in all operands.
func (n *nest) reset(views ...*view) {
	*n = nest{axes: 1, count: 1}
	copy(n.views[:], views)
	n.shape[0] = 1
	for ax, d := range views[0].Shape {
		if d == 1 {
			continue
		}
		last, merge := n.axes-1, true
		for o, v := range views {
			merge = merge && (n.shape[last] == 1 || n.jumps[o][last] == v.Strides[ax]*d)
		}
		if !merge {
			last = n.axes
			n.shape[last] = 1
			n.axes++
		}
		n.shape[last] *= d
		for o, v := range views {
			n.jumps[o][last] = v.Strides[ax]
		}
	}
	last := n.axes - 1
	for _, d := range n.shape[:last] {
		n.count *= d
	}
	n.run = n.shape[last]
	for o := range views {
		n.steps[o] = n.jumps[o][last]
	}
}

// place is a run of a nest: its index on each axis and its start in each operand.
type place struct {
	at   [maxAxes]int
	offs [maxOperands]int
}

// place returns run i.
func (n *nest) place(i int) (p place) {
	for o, v := range n.views {
		if v != nil {
			p.offs[o] = v.Offset
		}
	}
	for ax := n.axes - 2; ax >= 0; ax-- {
		p.at[ax] = i % n.shape[ax]
		i /= n.shape[ax]
		for o := range n.views {
			p.offs[o] += p.at[ax] * n.jumps[o][ax]
		}
	}
	return p
}

// next advances p to the next run without a division.
func (n *nest) next(p *place) {
	for ax := n.axes - 2; ax >= 0; ax-- {
		p.at[ax]++
		for o := range p.offs {
			p.offs[o] += n.jumps[o][ax]
		}
		if p.at[ax] < n.shape[ax] {
			return
		}
		p.at[ax] = 0
		for o := range p.offs {
			p.offs[o] -= n.shape[ax] * n.jumps[o][ax]
		}
	}
}

// maxRun is the longest piece passed to an elementwise function, small enough for the L1 cache.
const maxRun = 2048

// piece computes length elements at the given offsets of the operands.
type piece func(w *worker, offs [maxOperands]int, length int)

// pieces is the current elementwise operation.
type pieces struct {
	nest
	f      piece
	unary  kernels.UnaryOp
	binary func(dst, a, b []float32)
	halves func(dst, a, b []uint16) // the same on bf16, if all operands are dense bf16 and the tier has a routine

	// The caller's slice, which is the second operand of Upload and Download.
	host        []float32
	hostView    view
	hostStrides [maxAxes]int
}

// eachRun calls f for pieces of up to maxRun elements of the nest b.pieces, in any order, each element once.
func (b *Backend) eachRun(op string, f piece) {
	p := &b.pieces
	if p.count == 0 || p.run == 0 {
		return
	}
	p.f = f
	perRun := (p.run + maxRun - 1) / maxRun
	b.eachSpan(op, p.count*perRun, min(p.run, maxRun), b.tasks.pieces)
}

// runPieces is the task of eachRun.
func (b *Backend) runPieces(w *worker, from, to int) {
	p := &b.pieces
	perRun := (p.run + maxRun - 1) / maxRun
	run, piece := p.place(from/perRun), from%perRun
	for range to - from {
		offs, start := run.offs, piece*maxRun
		for o := range offs {
			offs[o] += start * p.steps[o]
		}
		p.f(w, offs, min(maxRun, p.run-start))
		if piece++; piece == perRun {
			piece = 0
			p.next(&run)
		}
	}
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
	v, ok := b.resolve(name, dst, x)
	if !ok || !b.checkPresent(name, []string{"dst", "source"}, v) || !b.sameShapes(name, v[0], v[1]) {
		return
	}
	if op > kernels.Tanh {
		b.fail("unary: operation %d is not supported", op)
		return
	}
	b.pieces.reset(v...)
	b.pieces.unary = op
	b.eachRun(name, b.tasks.unary)
}

// runUnary is the task of Unary and Copy.
func (b *Backend) runUnary(w *worker, offs [maxOperands]int, length int) {
	p := &b.pieces
	dst, x := p.views[0], p.views[1]
	if p.unary == kernels.Identity && copyHalf(dst, x, offs, p.steps, length) {
		return
	}
	src := x.read(w.floats(0, length), offs[1], p.steps[1], length)
	if p.unary != kernels.Identity {
		out := dst.target(w.floats(0, length), offs[0], p.steps[0], length)
		b.tier.row.apply(out, src, p.unary)
		src = out
	}
	dst.store(src, offs[0], p.steps[0])
}

// copyHalf copies 16-bit elements without conversion if both sides are dense and of one type. It reports whether it did.
func copyHalf(dst, src *view, offs, steps [maxOperands]int, n int) bool {
	if dst.DType != src.DType || dst.DType == kernels.F32 || steps[0] != 1 || steps[1] != 1 {
		return false
	}
	copy(dst.buf.u16[offs[0]:offs[0]+n], src.buf.u16[offs[1]:])
	return true
}

// Binary computes dst = a op b.
func (b *Backend) Binary(dst, x, y kernels.Tensor, op kernels.BinaryOp) {
	v, ok := b.resolve("binary", dst, x, y)
	if !ok || !b.checkPresent("binary", []string{"dst", "a", "b"}, v) || !b.sameShapes("binary", v[0], v[1:]...) {
		return
	}
	if op > kernels.Mul {
		b.fail("binary: operation %d is not supported", op)
		return
	}
	b.pieces.reset(v...)
	b.pieces.binary = b.tier.row.add
	if op == kernels.Mul {
		b.pieces.binary = b.tier.row.mul
	}
	b.pieces.halves = nil
	if dense := b.pieces.steps == [maxOperands]int{1, 1, 1}; dense && dst.DType == kernels.BF16 &&
		x.DType == kernels.BF16 && y.DType == kernels.BF16 {
		b.pieces.halves = b.tier.row.binaryBF16[op]
	}
	b.eachRun("binary", b.tasks.binary)
}

// runBinary is the task of Binary.
func (b *Backend) runBinary(w *worker, offs [maxOperands]int, length int) {
	p := &b.pieces
	if p.halves != nil {
		half := func(i int) []uint16 { return p.views[i].buf.u16[offs[i] : offs[i]+length] }
		p.halves(half(0), half(1), half(2))
		return
	}
	x := p.views[1].read(w.floats(0, length), offs[1], p.steps[1], length)
	y := p.views[2].read(w.floats(1, length), offs[2], p.steps[2], length)
	dst := p.views[0].target(w.floats(0, length), offs[0], p.steps[0], length)
	p.binary(dst, x, y)
	p.views[0].store(dst, offs[0], p.steps[0])
}
