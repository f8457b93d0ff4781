//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	"latentbeam/kernels"
)

// Attention computes softmax(scale q k^T + bias) v.
func (b *Backend) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	b.attention(dst, q, k, v, spec, b.eng.Multiprocessors)
}

// attention is Attention with a limit on the number of blocks, for kernels whose blocks process several tiles of queries.
func (b *Backend) attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec, blocks int) {
	const op = "attention"
	o, ok := b.resolve(op, dst, q, k, v, spec.Bias)
	if !ok || !b.checkPresent(op, []string{"dst", "q", "k", "v"}, o) || !b.checkAttention(dst, q, k, v, spec) ||
		dst.Len() == 0 {
		return
	}
	if spec.Int8 {
		b.fail("%s: GPUs cannot compute with 8-bit numbers (precision: int8) yet: leave precision out", op)
		return
	}
	n := len(q.Shape) - 3
	if q.Shape[n+2] > C.LB_ATTN_WIDE {
		b.attendWide(dst, q, k, v, spec)
		return
	}
	if err := (shape{dims: q.Shape[:n+2]}).countable(); err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	a := &C.lb_attn_args{
		dst: headsOf(o[0]), q: headsOf(o[1]), k: headsOf(o[2]), v: headsOf(o[3]), scale: C.lb_f32(spec.Scale),
		lead: [2]C.lb_i32{C.lb_i32(q.Shape[0]), 1}, lq: C.lb_i32(q.Shape[n]), lk: C.lb_i32(k.Shape[n]),
		heads: C.lb_i32(q.Shape[n+1]), d: C.lb_i32(q.Shape[n+2]), blocks: C.lb_i32(blocks),
	}
	if n == 2 {
		a.lead[1] = C.lb_i32(q.Shape[1])
	}
	if bias := o[4]; bias != nil {
		a.bias, a.bias_dtype = C.lb_u64(bias.ptr), C.lb_i32(bias.DType)
		a.bias_head, a.bias_q = C.lb_i64(bias.Strides[0]), C.lb_i64(bias.Strides[1])
		a.bias_k = C.lb_i64(bias.Strides[2])
	}
	if spec.KeyLens != nil {
		p, ok := b.lengths(op, spec.KeyLens)
		if !ok {
			return
		}
		a.lens = C.lb_u64(p)
	}
	b.attend(op, a, spec.KeyLens)
}

// lengths holds key lengths in device memory. The next call usually has the same lengths, because all layers of a model do, and
// reuses them.
type lengths struct {
	values []int
	buf    *buffer
}

// lengths copies lens to the device.
func (b *Backend) lengths(op string, lens []int) (cu.DevicePtr, bool) {
	l := &b.lens
	if l.buf != nil && slices.Equal(l.values, lens) {
		b.retain(l.buf)
		return l.buf.ptr, true
	}
	if l.buf == nil || l.buf.size < 4*len(lens) {
		buf, err := b.eng.newBuffer(max(tensorAlign, 8*len(lens)))
		if err != nil {
			b.fail("%s: %w", op, err)
			return 0, false
		}
		l.buf = buf
	}
	numbers := make([]int32, len(lens))
	for i, n := range lens {
		numbers[i] = int32(n)
	}
	l.values = append(l.values[:0], lens...)
	b.retain(l.buf)
	b.store(op, l.buf.ptr, bytesOf(numbers))
	return l.buf.ptr, b.err == nil
}

// attend launches the kernel for a, or two kernels if entries with few keys use another one.
func (b *Backend) attend(op string, a *C.lb_attn_args, lens []int) {
	launch := func(a *C.lb_attn_args, kernel uint32) {
		b.launch(op, kernelName(C.lb_attn_name(kernel)), C.lb_attn_launch(a, kernel), unsafe.Pointer(a))
	}
	arch := C.lb_i32(b.eng.arch())
	kernel := C.lb_attn_pick(a, arch)
	if kernel < C.LB_ATTN_WG_BF16_64 || len(lens) == 0 {
		launch(a, kernel)
		return
	}
	if slices.Max(lens) > C.LB_ATTN_SHORT {
		launch(a, kernel)
	}
	if slices.Min(lens) <= C.LB_ATTN_SHORT {
		few := *a
		few.most = C.LB_ATTN_SHORT
		launch(&few, C.lb_attn_pick(&few, arch))
	}
}

// headsOf returns the operand (..., L, H, D) in the form that kernels read.
func headsOf(o *operand) (h C.lb_heads) {
	n := len(o.Shape) - 3
	h.ptr, h.dtype = C.lb_u64(o.ptr), C.lb_i32(o.DType)
	for i, stride := range o.Strides[:n] {
		h.lead[i] = C.lb_i64(stride)
	}
	h.seq, h.head, h._chan = C.lb_i64(o.Strides[n]), C.lb_i64(o.Strides[n+1]), C.lb_i64(o.Strides[n+2])
	return h
}

// checkAttention checks the operands of Attention.
func (b *Backend) checkAttention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) bool {
	n := len(q.Shape) - 3
	if n != 1 && n != 2 || len(k.Shape) != n+3 ||
		!slices.Equal(q.Shape[:n], k.Shape[:n]) || !slices.Equal(q.Shape[n+1:], k.Shape[n+1:]) ||
		!sameShape(v, k) || !sameShape(dst, q) {
		b.fail("attention: q %v, k %v, v %v and dst %v are not (..., Lq, H, D), (..., Lk, H, D) twice and "+
			"(..., Lq, H, D) with one or two leading axes", q.Shape, k.Shape, v.Shape, dst.Shape)
		return false
	}
	lq, lk, h := q.Shape[n], k.Shape[n], q.Shape[n+1]
	if lens := spec.KeyLens; lens != nil && len(lens) != q.Shape[0] {
		b.fail("attention: %d key lengths for q %v", len(lens), q.Shape)
		return false
	}
	for i, l := range spec.KeyLens {
		if l < 0 || l > lk {
			b.fail("attention: key length %d at %d for k %v", l, i, k.Shape)
			return false
		}
	}
	if !spec.Bias.IsZero() && !slices.Equal(spec.Bias.Shape, []int{h, lq, lk}) {
		b.fail("attention: bias %v for q %v and k %v is not (H, Lq, Lk)", spec.Bias.Shape, q.Shape, k.Shape)
		return false
	}
	return true
}
