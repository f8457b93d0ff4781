package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/sequence"
)

// AddFull adds gate * proj(attention(x)) to the residual stream in place, where all tokens of a video attend to each
// other. streams, xs and gates hold a tensor (n, T, W, C) of type dt for each part of this rank: those of s.Parts(). A
// nil Split is that of a rank alone, which has one part with all patches. Every rank of the set calls AddFull.
//
// rope, which may be none, holds the angles of all tokens (T, S, D/2). masks has a mask for each row of the whole batch
// (Split.Rows), on the grid (T, H, W) of the tokens: the valid tokens are keys. nil: all tokens are.
//
// A set splits the heads: a rank gets the queries, keys and values of its heads from the owners of the columns and
// gives the results back. Every row is computed by the same sums as on one rank, so the result has the same bits.
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
	if err := AttendFull(be, s, dt, outs, qkvs, masks); err != nil {
		return err
	}
	for i := range xs {
		a.addOutput(be, streams[i], outs[i], gates[i])
	}
	return nil
}

// AttendFull is the attention inside AddFull, for networks that make their queries, keys and values in another way: qkvs
// (n, T, W, 3, H, D) of each part, normalised and rotated, give outs (n, T, W, H, D).
func AttendFull(be kernels.Backend, s *Split, dt kernels.DType, outs, qkvs []kernels.Tensor, masks []sequence.Mask) error {
	if s != nil && s.moves {
		return attendFullShared(be, s, dt, outs, qkvs, masks)
	}
	for i, qkv := range qkvs {
		own := masks
		if s != nil && masks != nil {
			own = masks[s.parts[i].Rows.Start:][:s.parts[i].Rows.Len]
		}
		n, tokens, heads, d := qkv.Dim(0), qkv.Dim(1)*qkv.Dim(2), qkv.Dim(4), qkv.Dim(5)
		attendRows(be, outs[i].Reshape(n, tokens, heads, d), qkv.Reshape(n, tokens, 3, heads, d), own)
	}
	return nil
}

// attendRows computes the attention of whole rows: qkv (n, N, 3, H, D) gives out (n, N, H, D).
func attendRows(be kernels.Backend, out, qkv kernels.Tensor, masks []sequence.Mask) {
	n, tokens, heads, d := out.Dim(0), out.Dim(1), out.Dim(2), out.Dim(3)
	if masks == nil {
		part := func(i int) kernels.Tensor { return qkv.Narrow(2, i, 1).Reshape(n, tokens, heads, d) }
		be.Attention(out, part(0), part(1), part(2), kernels.AttentionSpec{Scale: AttentionScale(d)})
		return
	}
	for i := range n {
		row := qkv.Index(i) // (N, 3, H, D)
		attendKeys(be, out.Index(i), row.Narrow(1, 0, 1).Reshape(tokens, heads, d), row.Narrow(1, 1, 2), &masks[i])
	}
}

// attendKeys computes the attention of queries q (L, H, D) to the keys and values kv (N, 2, H, D) that a mask, which may
// be nil, lets through: out (L, H, D). These are copied together, in order.
func attendKeys(be kernels.Backend, out, q, kv kernels.Tensor, mask *sequence.Mask) {
	defer be.Scope()()
	heads, d := q.Dim(1), q.Dim(2)
	spec := kernels.AttentionSpec{Scale: AttentionScale(d)}
	switch {
	case mask == nil || mask.Count() == mask.Tokens():
	case mask.Count() == 0:
		spec.KeyLens = []int{0}
	default:
		near, at := be.Alloc(kv.DType, mask.Count(), 2, heads, d), 0
		for run := range mask.Runs(sequence.Range{Hi: mask.Tokens()}) {
			be.Copy(near.Narrow(0, at, run.Len()), kv.Narrow(0, run.Lo, run.Len()))
			at += run.Len()
		}
		kv = near
	}
	part := func(i int) kernels.Tensor { return kv.Narrow(1, i, 1).Reshape(1, kv.Dim(0), heads, d) }
	lead := func(x kernels.Tensor) kernels.Tensor { return x.Reshape(1, x.Dim(0), heads, d) }
	be.Attention(lead(out), lead(q), part(0), part(1), spec)
}

// real returns the patches of a part that are no padding.
func (s *Split) real(p Part) Span {
	return Span{p.Patches.Start, max(0, min(p.Patches.Len, s.Plan.Shape.Positions-p.Patches.Start))}
}
