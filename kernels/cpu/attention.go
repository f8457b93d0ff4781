package cpu

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

const (
	// keyBlock is how many keys are taken together: their weights are one chain of additions, and blocks
	// follow in index order. It is part of the order of additions.
	keyBlock = 512
	// queryBlock is how many queries share a pass over the keys: whole groups of 5, 6 and 12 rows.
	queryBlock = 60
)

// attention is one call, its leading axes resolved.
type attention struct {
	tier         *tier
	dot          dot
	dst, q, k, v *view
	bias         *view
	spec         kernels.AttentionSpec
	lead         []int // one or two leading axes
	lq, lk, h, d int
}

// Attention computes softmax(scale q k^T + bias) v for each leading entry and head. The bits of a query
// depend on itself, the keys and values and their number; not on other queries nor on who computes it.
// Where there is no valid key the result is zero.
func (b *Backend) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	const op = "attention"
	views, ok := b.open(op, dst, q, k, v, spec.Bias)
	if !ok || !b.need(op, []string{"dst", "q", "k", "v"}, views) {
		return
	}
	a := &attention{tier: b.tier, dst: views[0], q: views[1], k: views[2], v: views[3], bias: views[4], spec: spec}
	if !b.checkAttention(a) || dst.Len() == 0 {
		return
	}
	if k.DType == v.DType {
		a.dot = b.tier.dotFor(q.DType, k.DType)
	}
	heads := dst.Len() / (a.lq * a.d)
	chunk := a.chunk(heads, len(b.crew.workers))
	chunks := (a.lq + chunk - 1) / chunk
	b.eachSpan(op, heads*chunks, min(chunk, a.lq)*(a.lk+1)*a.d/16, func(w *worker, from, to int) {
		for t := from; t < to; t++ {
			first := t % chunks * chunk
			a.run(w, t/chunks/a.h, t/chunks%a.h, first, min(a.lq, first+chunk))
		}
	})
}

// chunk returns how many queries of a head one task computes: all of them where there are heads enough for
// the workers, since every task packs the head's keys and values anew.
func (a *attention) chunk(heads, workers int) int {
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

// head returns one leading entry and head of v as rows of the sequence axis.
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

// keys returns how many keys an entry has.
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
		zero := grow(&s.row, a.d)
		clear(zero)
		for i := q0; i < q1; i++ {
			s.dst.store(zero, s.dst.offset(i), s.dst.step)
		}
		return
	}
	k, v := a.head(a.k, entry, head), a.head(a.v, entry, head)
	if a.tier.short != nil && keys <= shortKeys && a.bias == nil {
		a.runShort(s, k, v, head, q0, q1, keys)
		return
	}
	a.packHead(s, k, v, keys)
	for i := q0; i < q1; i += queryBlock {
		a.block(s, head, i, min(queryBlock, q1-i), keys)
	}
}

// packHead packs keys and values block by block.
func (a *attention) packHead(s *attentionScratch, k, v rows, keys int) {
	depth := a.dot.terms(a.d)
	s.keys.take(a.tier.packedSize(keys, depth))
	s.values.take(a.tier.packedSize(a.d, a.dot.terms(keys)))
	kp, kStride := k.dense(&s.stagedK, keys)
	vp, vStride := v.dense(&s.stagedV, keys)
	for k0 := 0; k0 < keys; k0 += keyBlock {
		n := min(keyBlock, keys-k0)
		a.tier.packNK(packing{dst: s.keys.at(k0 * depth * 4), depth: depth, dot: a.dot,
			src: unsafe.Add(kp, k0*kStride), stride: kStride, dtype: a.k.DType}, n, a.d)
		a.tier.packKN(packing{dst: s.values.at(a.valuesAt(k0)), depth: a.dot.terms(n), dot: a.dot,
			src: unsafe.Add(vp, k0*vStride), stride: vStride, dtype: a.v.DType}, a.d, n)
	}
}

// valuesAt returns where the packed values of the block from key k0 on begin.
func (a *attention) valuesAt(k0 int) int { return a.tier.padded(a.d) * a.dot.terms(k0) * 4 }

// block computes m queries from q0 on: the scores of one block of keys after the other, their weights,
// and the sums of the values, which shrink when a later block has a larger score.
func (a *attention) block(s *attentionScratch, head, q0, m, keys int) {
	qp, qStride := a.terms(&s.queries, &s.q, q0, m)
	depth := a.dot.terms(a.d)
	s.begin(a, m, keys)
	for k0 := 0; k0 < keys; k0 += keyBlock {
		n := min(keyBlock, keys-k0)
		s.reduce = reduce{c: s.scores.at(0), ldc: s.soft.stride, blocks: 1, offs: unsafe.Pointer(&s.zero),
			a: qp, lda: qStride, b: s.keys.at(k0 * depth * 4), k: depth}
		a.tier.multiply(&s.reduce, a.dot, m, n)
		a.addBias(s, head, q0, m, k0, n)
		s.soft.keys = n
		a.tier.softmax[a.dot](&s.soft)
		if k0 > 0 {
			for i := range m {
				a.tier.row.standard(s.sumRow(i, a.d), s.sumRow(i, a.d), 0, s.rescale[i])
			}
		}
		s.reduce = reduce{c: s.sums.at(0), ldc: s.sumStride, blocks: 1, offs: unsafe.Pointer(&s.zero),
			a: s.soft.weights, lda: s.soft.weightStride, b: s.values.at(a.valuesAt(k0)),
			k: a.dot.terms(n), add: min(k0, 1)}
		a.tier.multiply(&s.reduce, a.dot, m, a.d)
	}
	for i := range m {
		off := s.dst.offset(q0 + i)
		out := s.dst.target(s.sumRow(i, a.d), off, s.dst.step, a.d)
		a.tier.row.standard(out, s.sumRow(i, a.d), 0, 1/s.sum[i])
		s.dst.store(out, off, s.dst.step)
	}
}

// addBias scales the scores and adds the bias to them.
func (a *attention) addBias(s *attentionScratch, head, q0, m, k0, n int) {
	if a.bias == nil {
		return
	}
	strides := a.bias.Strides
	for i := range m {
		off := a.bias.Offset + head*strides[0] + (q0+i)*strides[1] + k0*strides[2]
		bias := a.bias.read(grow(&s.row, n), off, strides[2], n)
		row := unsafe.Slice((*float32)(s.scores.at(i*s.soft.stride)), n)
		a.tier.row.standard(row, row, 0, a.spec.Scale)
		a.tier.row.add(row, row, bias)
	}
}

// terms returns m rows of r from the given one on as the micro-kernels read them, and the bytes between
// them: where they lie if it can, else a copy.
func (a *attention) terms(copied *scratch, r *rows, from, m int) (unsafe.Pointer, int) {
	want := kernels.F32
	if a.dot == dotBF16 {
		want = kernels.BF16
	}
	stride := r.jump * want.Size()
	whole := a.d%a.dot.perTerm() == 0
	if r.DType == want && r.step == 1 && whole && stride%strideTrap != 0 {
		return r.pointer(r.offset(from)), stride
	}
	stride = (a.dot.terms(a.d)*4 + lineSize - 1) / lineSize * lineSize
	if stride%strideTrap == 0 {
		stride += lineSize
	}
	copied.take(m * stride)
	if r.DType == want && r.step == 1 {
		a.tier.copyRows(copied.at(0), r.pointer(r.offset(from)), stride, r.jump*want.Size(), m, a.d*want.Size())
		return copied.at(0), stride
	}
	for i := range m {
		row := unsafe.Slice((*float32)(copied.at(i*stride)), a.dot.terms(a.d))
		if a.dot == dotF32 {
			r.load(row, r.offset(from+i), r.step)
			continue
		}
		row[len(row)-1] = 0 // an odd element is a pair with a zero
		r.copyHalf(unsafe.Slice((*uint16)(copied.at(i*stride)), a.d), r.offset(from+i))
	}
	return copied.at(0), stride
}

// copyRowsGo copies rows of bytes and fills up the last 64 bytes of each with zeros.
func copyRowsGo(dst, src unsafe.Pointer, dstStride, srcStride, rows, bytes int) {
	whole := (bytes + lineSize - 1) / lineSize * lineSize
	for i := range rows {
		to := unsafe.Slice((*byte)(unsafe.Add(dst, i*dstStride)), whole)
		clear(to[copy(to, unsafe.Slice((*byte)(unsafe.Add(src, i*srcStride)), bytes)):])
	}
}
