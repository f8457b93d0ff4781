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
	o, ok := b.resolve(op, dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift, spec.Cos, spec.Sin)
	if !ok || !b.checkPresent(op, []string{"dst", "x"}, o) {
		return
	}
	if spec.Act > kernels.Sigmoid {
		b.fail("norm: unary operation %d is not supported", spec.Act)
		return
	}
	if err := spec.Check(&dst, &x); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	switch {
	case x.Len() == 0:
	case spec.Kind == kernels.GroupNorm:
		b.groupNorm(op, o, spec)
	default:
		b.rowNorm(op, o, spec)
	}
}

// rowNorm computes LayerNorm and RMSNorm with the operands dst, x, weight, bias, scale, shift, cos and sin.
func (b *Backend) rowNorm(op string, o []*operand, spec kernels.NormSpec) {
	x := o[1].Tensor
	var weights *operand // if each row has its own
	if o[2] != nil && spec.WeightOfRows(&x) {
		weights = o[2]
	}
	last := len(x.Shape) - 1
	s, err := newShape(last, o[0], o[1], o[4], o[5], weights, o[6], o[7])
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a := &C.lb_norm_args{
		rows: s.axes(), columns: C.lb_i32(x.Shape[last]), kind: C.lb_i32(spec.Kind), eps: C.lb_f32(spec.Eps),
		dst: s.view(0, o[0], step(o[0])), x: s.view(1, o[1], step(o[1])),
		scale: s.view(2, o[4], step(o[4])), shift: s.view(3, o[5], step(o[5])),
		bias: vector(o[3]), act: C.lb_i32(spec.Act),
		cos: s.view(5, o[6], step(o[6])), sin: s.view(6, o[7], step(o[7])),
	}
	if weights != nil {
		a.weight = s.view(4, weights, step(weights))
	} else {
		a.weight = vector(o[2])
	}
	if spec.RopeFirst {
		a.rope_first = 1
	}
	b.launch(op, kernelName(C.lb_norm_name(C.lb_norm_pick(a))), C.lb_norm_launch(a), unsafe.Pointer(a))
}

// groupNorm computes the moments of chunks of pixels, combines them in index order and applies them.
func (b *Backend) groupNorm(op string, o []*operand, spec kernels.NormSpec) {
	if c := o[1].Shape[3]; c > C.LB_GROUP_COLUMNS {
		b.fail("norm: group norm of %d channels, at most %d are supported", c, int(C.LB_GROUP_COLUMNS))
		return
	}
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
	moments, err := b.arena.acquire(int(C.lb_group_moments_bytes(a)))
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	factors, err := b.arena.acquire(int(C.lb_group_factors_bytes(a)))
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

// imageShape returns the shape of images (N, H, W, C) without the last axis. If the pixels of each image have equal distances
// it is (N, 1, H W), which is faster.
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

// vector returns an operand of one axis in the form that kernels read.
func vector(o *operand) (v C.lb_view) {
	if o != nil {
		v.ptr, v.dtype, v.col = C.lb_u64(o.ptr), C.lb_i32(o.DType), C.lb_i64(o.Strides[0])
	}
	return v
}
