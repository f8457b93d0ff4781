//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
// #include "kern/args_norm.h"
import "C"

import (
	"unsafe"

	"latentbeam/kernels"
)

// Norm normalises x into dst.
func (b *Backend) Norm(dst, x kernels.Tensor, spec kernels.NormSpec) {
	const op = "norm"
	o, ok := b.open(op, dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift)
	if !ok || !b.need(op, []string{"dst", "x"}, o) || !b.checkNorm(dst, x, spec) || x.Len() == 0 {
		return
	}
	if spec.Kind == kernels.GroupNorm {
		b.groupNorm(op, o, spec)
		return
	}
	last := len(x.Shape) - 1
	s, err := newShape(last, o[0], o[1], o[4], o[5])
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a := &C.lb_norm_args{
		rows: s.axes(), columns: C.lb_i32(x.Shape[last]), kind: C.lb_i32(spec.Kind), eps: C.lb_f32(spec.Eps),
		dst: s.view(0, o[0], step(o[0])), x: s.view(1, o[1], step(o[1])),
		scale: s.view(2, o[4], step(o[4])), shift: s.view(3, o[5], step(o[5])),
		weight: vector(o[2]), bias: vector(o[3]), act: C.lb_i32(spec.Act),
	}
	b.launch(op, kernelName(C.lb_norm_name(C.lb_norm_pick(a))), C.lb_norm_launch(a), unsafe.Pointer(a))
}

// checkNorm checks the operands of Norm.
func (b *Backend) checkNorm(dst, x kernels.Tensor, spec kernels.NormSpec) bool {
	if !sameShape(dst, x) {
		b.fail("norm: x %v for dst %v", x.Shape, dst.Shape)
		return false
	}
	if len(x.Shape) == 0 {
		b.fail("norm: x has no axis")
		return false
	}
	c := x.Shape[len(x.Shape)-1]
	for i, p := range []kernels.Tensor{spec.Weight, spec.Bias} {
		if !p.IsZero() && (len(p.Shape) != 1 || p.Shape[0] != c) {
			b.fail("norm: %s %v for x %v", [...]string{"weight", "bias"}[i], p.Shape, x.Shape)
			return false
		}
	}
	switch scale, shift := spec.Scale, spec.Shift; {
	case spec.Kind > kernels.GroupNorm:
		b.fail("norm: kind %d is not supported", spec.Kind)
	case spec.Act > kernels.Sigmoid:
		b.fail("norm: unary operation %d is not supported", spec.Act)
	case spec.Kind == kernels.GroupNorm && (len(x.Shape) != 4 || spec.Groups < 1 || c%spec.Groups != 0):
		b.fail("norm: group norm of %d groups needs x (N, H, W, C) with C a multiple, x is %v", spec.Groups, x.Shape)
	case spec.Kind == kernels.GroupNorm && c > C.LB_GROUP_COLUMNS:
		b.fail("norm: group norm of %d channels, %d are the most", c, int(C.LB_GROUP_COLUMNS))
	case scale.IsZero() != shift.IsZero():
		b.fail("norm: scale and shift go together")
	case !scale.IsZero() && (!sameShape(scale, x) || !sameShape(shift, x)):
		b.fail("norm: scale %v and shift %v for x %v", scale.Shape, shift.Shape, x.Shape)
	}
	return b.err == nil
}

// groupNorm takes the moments of chunks of pixels, combines them in index order and applies them.
func (b *Backend) groupNorm(op string, o []*operand, spec kernels.NormSpec) {
	m := b.arena.mark()
	defer b.arena.reset(m)
	s := imageShape(o[0], o[1], o[4], o[5])
	if err := s.countable(); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a := &C.lb_group_norm_args{
		pixels: s.axes(), columns: C.lb_i32(o[1].Shape[3]), groups: C.lb_i32(spec.Groups), eps: C.lb_f32(spec.Eps),
		dst: s.view(0, o[0], step(o[0])), x: s.view(1, o[1], step(o[1])),
		scale: s.view(2, o[4], step(o[4])), shift: s.view(3, o[5], step(o[5])),
		weight: vector(o[2]), bias: vector(o[3]), act: C.lb_i32(spec.Act),
	}
	moments, err := b.arena.take(int(C.lb_group_moments_bytes(a)))
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	factors, err := b.arena.take(int(C.lb_group_factors_bytes(a)))
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a.moments, a.factors = C.lb_u64(moments), C.lb_u64(factors)
	variant := "_any"
	if C.lb_group_plain(a) != 0 {
		variant = ""
	}
	b.launch(op, "group_moments"+variant, C.lb_group_moments_launch(a), unsafe.Pointer(a))
	b.launch(op, "group_combine", C.lb_group_combine_launch(a), unsafe.Pointer(a))
	b.launch(op, "group_apply"+variant, C.lb_group_apply_launch(a), unsafe.Pointer(a))
}

// imageShape is the shape of images (N, H, W, C) without the last axis: (N, 1, H W) where the pixels of each
// lie evenly, which is faster.
func imageShape(operands ...*operand) shape {
	h, w := operands[0].Shape[1], operands[0].Shape[2]
	even := true
	for _, o := range operands {
		even = even && (o == nil || o.Strides[1] == o.Strides[2]*w)
	}
	s := shape{dims: []int{operands[0].Shape[0], h, w}, strides: make([][]int, len(operands))}
	if even {
		s.dims[1], s.dims[2] = 1, h*w
	}
	for i, o := range operands {
		if o != nil {
			s.strides[i] = o.Strides[:3]
		}
	}
	return s
}

// vector is an operand of one axis as kernels read it.
func vector(o *operand) (v C.lb_view) {
	if o != nil {
		v.ptr, v.dtype, v.col = C.lb_u64(o.ptr), C.lb_i32(o.DType), C.lb_i64(o.Strides[0])
	}
	return v
}
