package cpu

import (
	"slices"

	"latentbeam/kernels"
)

// attention is one call with its leading axes resolved.
type attention struct {
	tier         *tier
	dot          dot
	int8         *int8Set // for 8-bit scores; nil: dot computes the scores
	dst, q, k, v *view
	bias         *view
	spec         kernels.AttentionSpec
	lead         []int // one or two leading axes
	lq, lk, h, d int
	chunk        int // queries per task
	chunks       int // tasks per head
}

// Attention computes softmax(scale q k^T + bias) v for each leading entry and head. The bits of a query's result depend on the
// query, the keys and values and their number; not on other queries and not on the worker that computes it. Without a valid key
// the result is zero.
func (b *Backend) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	const op = "attention"
	views, ok := b.resolve(op, dst, q, k, v, spec.Bias)
	if !ok || !b.checkPresent(op, []string{"dst", "q", "k", "v"}, views) {
		return
	}
	b.attention = attention{tier: b.tier, spec: spec,
		dst: views[0], q: views[1], k: views[2], v: views[3], bias: views[4]}
	a := &b.attention
	if !b.checkAttention(a) || dst.Len() == 0 {
		return
	}
	if k.DType == v.DType {
		a.dot = b.tier.dotFor(q.DType, k.DType)
	}
	if spec.Int8 {
		if a.int8 = b.tier.int8; a.d > int8Terms {
			b.fail("%s: heads of %d numbers are too long for int8: %d at most", op, a.d, int8Terms)
			return
		}
	}
	heads := dst.Len() / (a.lq * a.d)
	a.chunk = a.chunkFor(heads, len(b.crew.workers))
	a.chunks = (a.lq + a.chunk - 1) / a.chunk
	b.eachSpan(op, heads*a.chunks, min(a.chunk, a.lq)*(a.lk+1)*a.d/16, b.tasks.attention)
}

// runAttention is the task of Attention.
func (b *Backend) runAttention(w *worker, from, to int) {
	a := &b.attention
	for t := from; t < to; t++ {
		first := t % a.chunks * a.chunk
		a.run(w, t/a.chunks/a.h, t/a.chunks%a.h, first, min(a.lq, first+a.chunk))
	}
	w.attention.dst, w.attention.q = rows{}, rows{} // they refer to b, and a worker must not keep b from the garbage collector
}

// chunkFor returns the number of queries of a head that one task computes. It is all of them if there are enough heads for the
// workers, because every task packs the head's keys and values again.
func (a *attention) chunkFor(heads, workers int) int {
	parts := (4*workers + heads - 1) / heads
	if workers == 1 {
		parts = 1
	}
	per := (a.lq + parts - 1) / parts
	return (per + queryBlock - 1) / queryBlock * queryBlock
}

// checkAttention checks shapes and lengths and fills the sizes of a.
func (b *Backend) checkAttention(a *attention) bool {
	qs, ks := a.q.Shape, a.k.Shape
	n := len(qs) - 3
	if n != 1 && n != 2 || len(ks) != n+3 ||
		!slices.Equal(qs[:n], ks[:n]) || !slices.Equal(qs[n+1:], ks[n+1:]) ||
		!slices.Equal(a.v.Shape, ks) || !slices.Equal(a.dst.Shape, qs) {
		b.fail("attention: q %v, k %v, v %v and dst %v are not (..., Lq, H, D), (..., Lk, H, D) twice and "+
			"(..., Lq, H, D) with one or two leading axes", qs, ks, a.v.Shape, a.dst.Shape)
		return false
	}
	a.lead, a.lq, a.lk, a.h, a.d = qs[:n], qs[n], ks[n], qs[n+1], qs[n+2]
	if lens := a.spec.KeyLens; lens != nil && len(lens) != a.lead[0] {
		b.fail("attention: %d key lengths for q %v", len(lens), qs)
		return false
	}
	for i, l := range a.spec.KeyLens {
		if l < 0 || l > a.lk {
			b.fail("attention: key length %d at %d for k %v", l, i, ks)
			return false
		}
	}
	if a.bias != nil && !slices.Equal(a.bias.Shape, []int{a.h, a.lq, a.lk}) {
		b.fail("attention: bias %v for q %v and k %v is not (H, Lq, Lk)", a.bias.Shape, qs, ks)
		return false
	}
	return true
}

// head returns a head of one leading entry of v, as rows of the sequence axis.
func (a *attention) head(v *view, entry, head int) rows {
	n := len(a.lead)
	start := v.Offset + head*v.Strides[n+1]
	for ax := n - 1; ax >= 0; ax-- {
		start += entry % a.lead[ax] * v.Strides[ax]
		entry /= a.lead[ax]
	}
	return rows{
		view: v, start: start, count: v.Shape[n], n: a.d, step: v.Strides[n+2],
		jump: v.Strides[n], run: v.Shape[n],
	}
}

// keys returns the number of keys of an entry.
func (a *attention) keys(entry int) int {
	if a.spec.KeyLens == nil {
		return a.lk
	}
	inner := 1
	for _, n := range a.lead[1:] {
		inner *= n
	}
	return a.spec.KeyLens[entry/inner]
}

// run computes queries q0 to q1 of one entry and head.
func (a *attention) run(w *worker, entry, head, q0, q1 int) {
	s := &w.attention
	s.dst, s.q = a.head(a.dst, entry, head), a.head(a.q, entry, head)
	keys := a.keys(entry)
	if keys == 0 {
		zero := growList(&s.row, a.d)
		clear(zero)
		for i := q0; i < q1; i++ {
			s.dst.store(zero, s.dst.offset(i), s.dst.step)
		}
		return
	}
	k, v := a.head(a.k, entry, head), a.head(a.v, entry, head)
	if a.tier.attend.short != nil && keys <= shortKeys && !a.prescaled() && a.int8 == nil {
		a.runShort(s, k, v, head, q0, q1, keys)
		return
	}
	a.packHead(s, k, v, keys)
	for i := q0; i < q1; i += queryBlock {
		a.block(s, head, i, min(queryBlock, q1-i), keys)
	}
}
