package osplan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// attention is multi-head attention with one layer each for queries, keys, values and the output. A rank may have only some of
// the heads.
type attention struct {
	q, k, v nn.Linear // to_q, to_k, to_v (own columns, C)
	proj    nn.Linear // to_out.0 (C, own columns)
	heads   int       // on this rank
	d       int       // width of a head
}

func loadAttention(w *weights.Weights, cfg Config) attention {
	c := cfg.Hidden()
	mine, columns := w.Heads(cfg.Heads, cfg.HeadSize)
	return attention{
		q:     nn.LoadRows(w.Sub("to_q"), c, 1, c, columns, true),
		k:     nn.LoadRows(w.Sub("to_k"), c, 1, c, columns, true),
		v:     nn.LoadRows(w.Sub("to_v"), c, 1, c, columns, true),
		proj:  nn.LoadSum(w.Sub("to_out.0"), c, c, columns, nn.HeadParts(cfg.Heads, cfg.HeadSize), true),
		heads: mine.Len(), d: cfg.HeadSize,
	}
}

// into writes this rank's heads of l(x) to dst (..., heads, D): x (..., C).
func (a attention) into(be kernels.Backend, dst, x kernels.Tensor, l nn.Linear) {
	defer be.Scope()()
	be.Copy(dst, l.Forward(be, x, kernels.Identity).Reshape(dst.Shape...))
}

// qkv returns the queries, keys and values of x (n, T, W, C): (n, T, W, 3, heads, D). The first patches are rotated by the
// angles of rope (T, S, D/2); the others are padding.
func (a attention) qkv(be kernels.Backend, x kernels.Tensor, rope nn.Rope, patches nn.Span) kernels.Tensor {
	out := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), 3, a.heads, a.d)
	for i, l := range []nn.Linear{a.q, a.k, a.v} {
		dst := out.Narrow(3, i, 1).Reshape(x.Dim(0), x.Dim(1), x.Dim(2), a.heads, a.d)
		a.into(be, dst, x, l)
	}
	if patches.Len > 0 {
		rope.Narrow(1, patches).Rotate(be, out.Narrow(2, 0, patches.Len).Narrow(3, 0, 2))
	}
	return out
}

// keys writes the keys and values of texts to kv (B, tokens, 2, heads, D). text (sum L, C) has the rows of all texts, one text
// after another. Entries after a text's length are not written and never read.
func (a attention) keys(be kernels.Backend, kv, text kernels.Tensor, lens []int) {
	defer be.Scope()()
	packed := be.Alloc(text.DType, text.Dim(0), 2, a.heads, a.d)
	for i, l := range []nn.Linear{a.k, a.v} {
		a.into(be, packed.Narrow(1, i, 1).Reshape(text.Dim(0), a.heads, a.d), text, l)
	}
	start := 0
	for i, n := range lens {
		be.Copy(kv.Index(i).Narrow(0, 0, n), packed.Narrow(0, start, n))
		start += n
	}
}

// addText adds proj(attention(stream, text)) to the stream (n, T, W, C) in place. kv (n, tokens, 2, heads, D) and lens come
// from keys.
func (a attention) addText(be kernels.Backend, stream, kv kernels.Tensor, lens []int) {
	defer be.Scope()()
	n, tokens := stream.Dim(0), stream.Dim(1)*stream.Dim(2)
	q := a.q.Forward(be, stream, kernels.Identity).Reshape(n, tokens, a.heads, a.d)
	part := func(i int) kernels.Tensor { return kv.Narrow(2, i, 1).Reshape(n, kv.Dim(1), a.heads, a.d) }
	out := be.Alloc(stream.DType, n, tokens, a.heads, a.d)
	be.Attention(out, q, part(0), part(1), kernels.AttentionSpec{Scale: nn.AttentionScale(a.d), KeyLens: lens})
	a.add(be, stream, out, kernels.Tensor{})
}

// add adds gate * proj(out) to the stream (n, T, W, C). out has one row of heads x D for each row of the stream.
func (a attention) add(be kernels.Backend, stream, out, gate kernels.Tensor) {
	a.proj.AddTo(be, stream, out.Reshape(stream.Dim(0), stream.Dim(1), stream.Dim(2), a.heads*a.d), gate)
}
