//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"unsafe"

	"latentbeam/kernels"
)

// wideScores is the number of scores of a head that are computed together: 64 MiB of them.
const wideScores = 16 << 20

// attendWide computes attention with heads of more than LB_ATTN_WIDE channels (the VAE has 512), whose sums do not fit into
// registers. It computes head by head, some queries at a time, as two products and a softmax between them. The number of
// queries at a time and other work on the device change no bits.
func (b *Backend) attendWide(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	defer b.Scope()()
	n := len(q.Shape) - 3
	lead1, heads := 1, q.Shape[n+1]
	if n == 2 {
		lead1 = q.Shape[1]
	}
	head := func(t kernels.Tensor, i, h int) kernels.Tensor { // (L, D)
		t = t.Index(i / lead1)
		if n == 2 {
			t = t.Index(i % lead1)
		}
		return t.Permute(1, 0, 2).Index(h)
	}
	for i := range q.Shape[0] * lead1 {
		keys := k.Shape[n]
		if spec.KeyLens != nil {
			keys = spec.KeyLens[i/lead1]
		}
		for h := range heads {
			var bias kernels.Tensor
			if !spec.Bias.IsZero() {
				bias = spec.Bias.Index(h).Narrow(1, 0, keys)
			}
			b.wideHead(head(dst, i, h), head(q, i, h), head(k, i, h).Narrow(0, 0, keys),
				head(v, i, h).Narrow(0, 0, keys), bias, spec.Scale)
		}
	}
}

// wideHead computes one head: dst and q (Lq, D), k and v (keys, D), bias (Lq, keys) or none.
func (b *Backend) wideHead(dst, q, k, v, bias kernels.Tensor, scale float32) {
	defer b.Scope()()
	queries, keys := q.Shape[0], k.Shape[0]
	if keys == 0 {
		b.Linear(dst, q.Narrow(1, 0, 0), k.Reshape(q.Shape[1], 0), kernels.Epilogue{}) // without terms the result is zeros
		return
	}
	columns := b.Alloc(v.DType, v.Shape[1], keys) // the rows of a product's second operand need contiguous keys
	b.Copy(columns, v.Permute(1, 0))
	perPass := min(queries, max(1, wideScores/keys))
	scores, weights := b.Alloc(kernels.F32, perPass, keys), b.Alloc(v.DType, perPass, keys)
	for from := 0; from < queries; from += perPass {
		m := min(perPass, queries-from)
		s, w := scores.Narrow(0, 0, m), weights.Narrow(0, 0, m)
		b.Linear(s, q.Narrow(0, from, m), k, kernels.Epilogue{})
		if !bias.IsZero() {
			b.softmax(w, s, bias.Narrow(0, from, m), scale)
		} else {
			b.softmax(w, s, bias, scale)
		}
		b.Linear(dst.Narrow(0, from, m), w, columns, kernels.Epilogue{})
	}
}

// softmax computes the rows of dst = softmax(scale scores + bias); dst and scores are dense.
func (b *Backend) softmax(dst, scores, bias kernels.Tensor, scale float32) {
	const op = "attention"
	o, ok := b.resolve(op, dst, scores, bias)
	if !ok {
		return
	}
	a := &C.lb_softmax_args{
		scores: C.lb_u64(o[1].ptr), dst: C.lb_u64(o[0].ptr), scale: C.lb_f32(scale), dst_dtype: C.lb_i32(dst.DType),
		pitch: C.lb_i64(scores.Strides[0]), dst_pitch: C.lb_i64(dst.Strides[0]),
		rows: C.lb_i32(dst.Shape[0]), keys: C.lb_i32(dst.Shape[1]),
	}
	if o[2] != nil {
		a.bias, a.bias_dtype = C.lb_u64(o[2].ptr), C.lb_i32(bias.DType)
		a.bias_row, a.bias_key = C.lb_i64(bias.Strides[0]), C.lb_i64(bias.Strides[1])
	}
	b.launch(op, "softmax", C.lb_softmax_launch(a), unsafe.Pointer(a))
}
