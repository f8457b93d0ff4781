//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

// Rope rotates neighbouring channels of x by the angles cos and sin.
func (b *Backend) Rope(dst, x, cos, sin kernels.Tensor) {
	const op = "rope"
	o, ok := b.resolve(op, dst, x, cos, sin)
	if !ok || !b.checkPresent(op, []string{"dst", "x", "cos", "sin"}, o) {
		return
	}
	if !sameShape(dst, x) {
		b.fail("rope: x %v for dst %v", x.Shape, dst.Shape)
		return
	}
	if err := kernels.CheckRope(&x, &cos, &sin); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	last := len(x.Shape) - 1
	dstPairs, xPairs := o[0].pairs(), o[1].pairs()
	for _, part := range parts(dstPairs, xPairs, o[2], o[3]) {
		s, err := newShape(last, part...)
		if err != nil {
			b.fail("%s: %w", op, err)
			return
		}
		b.rope(op, s, part, dst.Strides[last], x.Strides[last])
	}
}

// rope rotates one part; its last axis counts pairs and is not merged with others.
func (b *Backend) rope(op string, s shape, part []*operand, dstStep, xStep int) {
	last := len(part[0].Shape) - 1
	s.dims = append(s.dims, part[0].Shape[last])
	for i, o := range part {
		s.strides[i] = append(s.strides[i], o.Strides[last])
	}
	a := &C.lb_rope_args{shape: s.axes(), dst: s.view(0, part[0], dstStep), x: s.view(1, part[1], xStep),
		cos: s.view(2, part[2], 0), sin: s.view(3, part[3], 0)}
	b.launch(op, "rope", C.lb_rope_launch(a), unsafe.Pointer(a))
}

// pairs returns the view whose last axis counts pairs of neighbours.
func (o *operand) pairs() *operand {
	p := *o
	last := len(o.Shape) - 1
	p.Shape, p.Strides = slices.Clone(o.Shape), slices.Clone(o.Strides)
	p.Shape[last] /= 2
	p.Strides[last] *= 2
	return &p
}
