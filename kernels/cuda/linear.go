//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

// Linear computes dst = ep(x w^T).
func (b *Backend) Linear(dst, x, w kernels.Tensor, ep kernels.Epilogue) {
	b.linear(dst, x, w, ep, func(kernel C.enum_lb_gemm_kernel) C.enum_lb_gemm_kernel { return kernel })
}

// linear is Linear with another kernel: override gets the kernel that Linear chooses and returns the one to use.
func (b *Backend) linear(dst, x, w kernels.Tensor, ep kernels.Epilogue,
	override func(C.enum_lb_gemm_kernel) C.enum_lb_gemm_kernel) {
	const op = "linear"
	o, ok := b.resolve(op, dst, x, w, ep.Bias, ep.Residual, ep.Gate, ep.Onto)
	if !ok || !b.checkPresent(op, []string{"dst", "x", "w"}, o) {
		return
	}
	if ep.Int8 {
		b.fail("%s: GPUs cannot compute with 8-bit numbers (precision: int8) yet: leave precision out", op)
		return
	}
	last := len(x.Shape) - 1
	if last < 0 || len(w.Shape) != 2 || w.Shape[1] != x.Shape[last] || len(dst.Shape) != last+1 ||
		dst.Shape[last] != w.Shape[0] || !slices.Equal(dst.Shape[:last], x.Shape[:last]) {
		b.fail("linear: x %v, w %v and dst %v are not (..., K), (N, K) and (..., N)", x.Shape, w.Shape, dst.Shape)
		return
	}
	if !b.checkParts(op, ep.Parts, x.Shape[last], dst, ep.Onto) || !b.checkEpilogue(op, dst, ep) || dst.Len() == 0 {
		return
	}
	if b.blasTakes(dst, x, w, ep) {
		b.blasLinear(op, o, ep)
		return
	}
	s, err := newShape(last, o[0], o[1], o[4], o[5], o[6])
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a := &C.lb_gemm_args{
		rows: s.axes(), n: C.lb_i32(w.Shape[0]), k: C.lb_i32(w.Shape[1]), x: s.view(1, o[1], x.Strides[last]),
		w: C.lb_u64(o[2].ptr), w_row: C.lb_i64(w.Strides[0]), w_col: C.lb_i64(w.Strides[1]),
		w_dtype: C.lb_i32(w.DType), parts: C.lb_i32(len(ep.Parts)), onto: s.view(4, o[6], step(o[6])),
		ep: epilogue(s, [...]int{0, 3, 2}, o[0], o[5], o[4], o[3], ep.Act),
	}
	for i, border := range ep.Parts {
		a.part[i] = C.lb_i32(border)
	}
	kernel := override(C.lb_gemm_pick(a, C.lb_i32(b.eng.arch())))
	b.launch(op, kernelName(C.lb_gemm_name(kernel)), C.lb_gemm_launch(a, kernel), unsafe.Pointer(a))
}

// checkParts checks the borders of the parts of a sum over k terms, and the operand onto.
func (b *Backend) checkParts(op string, parts []int, k int, dst, onto kernels.Tensor) bool {
	before := 0
	for _, at := range parts {
		if at <= before || at >= k || at%2 != 0 {
			b.fail("%s: parts start at %v in a sum of %d terms: the starts must be even, ascending and inside the sum", op, parts, k)
			return false
		}
		before = at
	}
	if len(parts) > C.LB_PARTS {
		b.fail("%s: %d borders between parts, at most %d are supported", op, len(parts), int(C.LB_PARTS))
		return false
	}
	if !onto.IsZero() && (onto.DType != kernels.F32 || !sameShape(onto, dst)) {
		b.fail("%s: onto %v %v for dst %v", op, onto.DType, onto.Shape, dst.Shape)
		return false
	}
	return true
}

// checkEpilogue checks the operands of an epilogue that writes dst.
func (b *Backend) checkEpilogue(op string, dst kernels.Tensor, ep kernels.Epilogue) bool {
	n := dst.Shape[len(dst.Shape)-1]
	switch {
	case !ep.Bias.IsZero() && (len(ep.Bias.Shape) != 1 || ep.Bias.Shape[0] != n):
		b.fail("%s: bias %v for dst %v", op, ep.Bias.Shape, dst.Shape)
	case !ep.Residual.IsZero() && !sameShape(ep.Residual, dst):
		b.fail("%s: residual %v for dst %v", op, ep.Residual.Shape, dst.Shape)
	case !ep.Gate.IsZero() && !sameShape(ep.Gate, dst):
		b.fail("%s: gate %v for dst %v", op, ep.Gate.Shape, dst.Shape)
	case ep.Act > kernels.Sigmoid:
		b.fail("%s: unary operation %d is not supported", op, ep.Act)
	}
	return b.err == nil
}

// epilogue returns the operations on sums in the form that kernels read; at holds the indexes of dst, gate and residual among
// the operands of s.
func epilogue(s shape, at [3]int, dst, gate, residual, bias *operand, act kernels.UnaryOp) (e C.lb_epilogue) {
	e.dst = s.view(at[0], dst, step(dst))
	e.gate = s.view(at[1], gate, step(gate))
	e.residual = s.view(at[2], residual, step(residual))
	e.act = C.lb_i32(act)
	if bias != nil {
		e.bias, e.bias_stride = C.lb_u64(bias.ptr), C.lb_i64(bias.Strides[0])
		e.bias_dtype = C.lb_i32(bias.DType)
	}
	return e
}

// step returns the distance between neighbours on an operand's last axis.
func step(o *operand) int {
	if o == nil || len(o.Strides) == 0 {
		return 0
	}
	return o.Strides[len(o.Strides)-1]
}
