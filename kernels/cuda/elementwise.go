//go:build cuda && linux

package cuda

// #include "plan.h"
import "C"

import (
	"math"
	"unsafe"

	"latentbeam/kernels"
)

// Copy copies and converts src, which may belong to a peer, into dst.
func (b *Backend) Copy(dst, src kernels.Tensor) {
	const op = "copy"
	o, ok := b.resolve(op, dst)
	if !ok || !b.checkPresent(op, []string{"dst"}, o) {
		return
	}
	m := b.arena.mark()
	defer b.arena.reset(m)
	from := b.resolveSource(op, src)
	switch {
	case from == nil:
	case !sameShape(dst, src):
		b.fail("copy: source %v into dst %v", src.Shape, dst.Shape)
	default:
		b.copyOf(op, o[0], from)
	}
}

// copyOf copies between operands of one shape.
func (b *Backend) copyOf(op string, dst, src *operand) { b.unary(op, dst, src, kernels.Identity) }

// Unary computes dst = f(x).
func (b *Backend) Unary(dst, x kernels.Tensor, f kernels.UnaryOp) {
	const op = "unary"
	o, ok := b.resolve(op, dst, x)
	switch {
	case !ok || !b.checkPresent(op, []string{"dst", "x"}, o):
	case !sameShape(dst, x):
		b.fail("unary: x %v for dst %v", x.Shape, dst.Shape)
	case f > kernels.Sigmoid:
		b.fail("unary: operation %d is not supported", f)
	default:
		b.unary(op, o[0], o[1], f)
	}
}

// unary computes dst = f(x) for operands of one shape.
func (b *Backend) unary(op string, dst, x *operand, f kernels.UnaryOp) {
	for _, part := range parts(dst, x) {
		dst, x := part[0], part[1]
		s, err := newShape(len(dst.Shape), dst, x)
		if err != nil {
			b.fail("%s: %w", op, err)
			return
		}
		a := &C.lb_map_args{shape: s.axes(), dst: s.view(0, dst, 0), a: s.view(1, x, 0), op: C.lb_i32(f)}
		var across C.int
		l, name := C.lb_plan_unary(a, &across), "map_unary"
		if across != 0 {
			name = "transpose"
		}
		b.launch(op, name, l, unsafe.Pointer(a))
	}
}

// Binary computes dst = a f c.
func (b *Backend) Binary(dst, a, c kernels.Tensor, f kernels.BinaryOp) {
	const op = "binary"
	o, ok := b.resolve(op, dst, a, c)
	switch {
	case !ok || !b.checkPresent(op, []string{"dst", "a", "b"}, o):
		return
	case !sameShape(dst, a) || !sameShape(dst, c):
		b.fail("binary: a %v and b %v for dst %v", a.Shape, c.Shape, dst.Shape)
		return
	case f > kernels.Mul:
		b.fail("binary: operation %d is not supported", f)
		return
	}
	b.binary(op, o[0], o[1], o[2], f)
}

// binary computes dst = a f c for operands of one shape.
func (b *Backend) binary(op string, dst, a, c *operand, f kernels.BinaryOp) {
	for _, part := range parts(dst, a, c) {
		s, err := newShape(len(dst.Shape), part...)
		if err != nil {
			b.fail("%s: %w", op, err)
			return
		}
		args := &C.lb_map_args{shape: s.axes(), dst: s.view(0, part[0], 0), a: s.view(1, part[1], 0),
			b: s.view(2, part[2], 0), op: C.lb_i32(f)}
		b.launch(op, "map_binary", C.lb_plan_binary(args), unsafe.Pointer(args))
	}
}

// maxElementsPerLaunch is the greatest number of elements in one launch of a kernel.
const maxElementsPerLaunch = math.MaxInt32

// parts divides operands of one shape into parts of at most maxElementsPerLaunch elements; it returns nothing if they are empty.
func parts(operands ...*operand) [][]*operand {
	shape := operands[0].Shape
	switch n := operands[0].Len(); {
	case n == 0:
		return nil
	case n <= maxElementsPerLaunch:
		return [][]*operand{operands}
	}
	axis := 0
	for i, d := range shape {
		if d > shape[axis] {
			axis = i
		}
	}
	half := shape[axis] / 2
	return append(parts(narrowed(operands, axis, 0, half)...),
		parts(narrowed(operands, axis, half, shape[axis]-half)...)...)
}

// narrowed returns n entries of axis, from start on, of all operands.
func narrowed(operands []*operand, axis, start, n int) []*operand {
	out := make([]*operand, len(operands))
	for i, o := range operands {
		out[i] = o.narrow(axis, start, n)
	}
	return out
}
