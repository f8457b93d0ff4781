package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// AddFull adds gate * proj(attention(x)) to the residual stream in place. All tokens of a video attend to each other. streams,
// xs and gates hold a tensor (n, T, W, C) of type dt for each part of this rank (s.Parts()). With a nil Split the rank is alone
// and has one part with all patches. Every rank of the set must call AddFull.
//
// rope, which may be zero, holds the angles of all tokens (T, S, D/2). masks has a mask for each row of the whole batch
// (Split.Rows), on the token grid (T, H, W): only valid tokens are keys. Nil: all tokens are.
//
// A set splits the heads: a rank gets the queries, keys and values of its heads from the ranks that have the columns, and sends
// the results back. Every row is computed with the same sums as on one rank, so the result has the same bits.
func (a SelfAttention) AddFull(be kernels.Backend, s *Split, dt kernels.DType, streams, xs, gates []kernels.Tensor,
	rope Rope, masks []sequence.Mask) error {
	defer be.Scope()()
	var outs, qkvs []kernels.Tensor
	for i, x := range xs {
		patches := Span{Len: x.Dim(2)}
		if s != nil {
			patches = s.real(s.parts[i])
		}
		qkv := a.project(be, x) // (n, T, W, 3, H, D)
		if patches.Len > 0 {
			a.rotate(be, qkv.Narrow(2, 0, patches.Len), rope.Narrow(1, patches))
		}
		qkvs = append(qkvs, qkv)
		outs = append(outs, be.Alloc(dt, x.Dim(0), x.Dim(1), x.Dim(2), a.Heads, a.D))
	}
	if err := AttendFull(be, s, dt, outs, qkvs, &Pattern{Masks: masks}); err != nil {
		return err
	}
	for i := range xs {
		a.addOutput(be, streams[i], outs[i], gates[i])
	}
	return nil
}

// Pattern says which tokens of a video attend to each other.
type Pattern struct {
	Masks []sequence.Mask // for each row of the whole batch (Split.Rows): valid tokens are keys; nil: all are
	Skip  sequence.Skip   // tokens attend only inside a sub-sequence; zero: no restriction
	Int8  bool            // compute scores with 8-bit numbers, see kernels.AttentionSpec.Int8
}

// AttendFull is the attention inside AddFull, for networks that compute their queries, keys and values differently. qkvs (n, T,
// W, 3, H, D) of each part must be normalised and rotated; the results go to outs (n, T, W, H, D). With a nil pattern all
// tokens attend to all.
func AttendFull(be kernels.Backend, s *Split, dt kernels.DType, outs, qkvs []kernels.Tensor, pattern *Pattern) error {
	var p Pattern
	if pattern != nil {
		p = *pattern
	}
	if s != nil && s.moves {
		return attendFullShared(be, s, dt, outs, qkvs, p)
	}
	for i, qkv := range qkvs {
		own := p
		if s != nil && p.Masks != nil {
			own.Masks = p.Masks[s.parts[i].Rows.Start:][:s.parts[i].Rows.Len]
		}
		n, tokens, heads, d := qkv.Dim(0), qkv.Dim(1)*qkv.Dim(2), qkv.Dim(4), qkv.Dim(5)
		attendRows(be, outs[i].Reshape(n, tokens, heads, d), qkv.Reshape(n, tokens, 3, heads, d), own)
	}
	return nil
}

// attendRows computes the attention of whole rows: qkv (n, N, 3, H, D) gives out (n, N, H, D).
func attendRows(be kernels.Backend, out, qkv kernels.Tensor, p Pattern) {
	n, tokens, heads, d := out.Dim(0), out.Dim(1), out.Dim(2), out.Dim(3)
	if p.Masks == nil && p.Skip.Dense() {
		part := func(i int) kernels.Tensor { return qkv.Narrow(2, i, 1).Reshape(n, tokens, heads, d) }
		be.Attention(out, part(0), part(1), part(2), kernels.AttentionSpec{Scale: AttentionScale(d), Int8: p.Int8})
		return
	}
	for i := range n {
		row := qkv.Index(i) // (N, 3, H, D)
		q := row.Narrow(1, 0, 1).Reshape(tokens, heads, d)
		p.attendKeys(be, out.Index(i), q, row.Narrow(1, 1, 2), 0, p.mask(i))
	}
}

// mask returns the mask of a row; nil: all tokens are valid.
func (p Pattern) mask(row int) *sequence.Mask {
	if p.Masks == nil || p.Masks[row].Count() == p.Masks[row].Tokens() {
		return nil
	}
	return &p.Masks[row]
}

// attendKeys computes the attention of queries q (L, H, D) to the keys and values kv (N, 2, H, D) of their sub-sequences, and
// writes out (L, H, D). first is the token of the first query. A mask hides keys; nil hides none.
func (p Pattern) attendKeys(be kernels.Backend, out, q, kv kernels.Tensor, first int, mask *sequence.Mask) {
	queries := sequence.Range{Lo: first, Hi: first + q.Dim(0)}
	for way := range max(1, p.Skip.Ways) {
		mine, n := combsOf(p.Skip, way, queries, nil)
		if n == 0 {
			continue
		}
		end := be.Scope()
		qs, outs := q, out
		if n < q.Dim(0) {
			qs, outs = be.Alloc(q.DType, n, q.Dim(1), q.Dim(2)), be.Alloc(out.DType, n, q.Dim(1), q.Dim(2))
			eachComb(mine, first, q, qs, be.Copy)
		}
		p.attendSome(be, outs, qs, kv, way, mask)
		if n < q.Dim(0) {
			eachComb(mine, first, out, outs, func(gathered, from kernels.Tensor) { be.Copy(from, gathered) })
		}
		end()
	}
}

// attendSome is attendKeys for queries of one sub-sequence. It copies the sub-sequence's keys into one tensor, in order.
func (p Pattern) attendSome(be kernels.Backend, out, q, kv kernels.Tensor, way int, mask *sequence.Mask) {
	heads, d := q.Dim(1), q.Dim(2)
	spec := kernels.AttentionSpec{Scale: AttentionScale(d), Int8: p.Int8}
	keys, n := combsOf(p.Skip, way, sequence.Range{Hi: kv.Dim(0)}, mask)
	switch {
	case n == kv.Dim(0):
	case n == 0:
		spec.KeyLens = []int{0}
	default:
		near := be.Alloc(kv.DType, n, 2, heads, d)
		eachComb(keys, 0, kv, near, be.Copy)
		kv = near
	}
	part := func(i int) kernels.Tensor { return kv.Narrow(1, i, 1).Reshape(1, kv.Dim(0), heads, d) }
	lead := func(x kernels.Tensor) kernels.Tensor { return x.Reshape(1, x.Dim(0), heads, d) }
	be.Attention(lead(out), lead(q), part(0), part(1), spec)
}

// combsOf lists the tokens of r in a sub-sequence that the mask, which may be nil, does not hide, and counts them.
func combsOf(skip sequence.Skip, way int, r sequence.Range, mask *sequence.Mask) (out []sequence.Comb, n int) {
	add := func(r sequence.Range) {
		for c := range skip.Combs(way, r) {
			out, n = append(out, c), n+c.Tokens()
		}
	}
	if mask == nil {
		add(r)
		return out, n
	}
	for run := range mask.Runs(r) {
		add(run)
	}
	return out, n
}

// eachComb calls copy for the tokens of combs: with their view in gathered (n, ...), where they are adjacent, and their view in
// x (L, ...). first is the first token of x.
func eachComb(combs []sequence.Comb, first int, x, gathered kernels.Tensor, copy func(gathered, from kernels.Tensor)) {
	at := 0
	for _, c := range combs {
		from := x.Narrow(0, c.Lo-first, c.Count*c.Stride)
		from = from.Reshape(append([]int{c.Count, c.Stride}, x.Shape[1:]...)...).Narrow(1, 0, c.Width)
		to := gathered.Narrow(0, at, c.Tokens())
		copy(to.Reshape(from.Shape...), from)
		at += c.Tokens()
	}
}

// real returns the patches of a part that are not padding.
func (s *Split) real(p Part) Span {
	return Span{p.Patches.Start, max(0, min(p.Patches.Len, s.Plan.Shape.Positions-p.Patches.Start))}
}
