package nn

import (
	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// CrossAttention is multi-head attention of tokens to a text, as PixArt stores it.
type CrossAttention struct {
	Q     Linear // q_linear (C, C)
	KV    Linear // kv_linear (2C, C); rows ordered k, v, each by head
	Proj  Linear // proj (C, C)
	Heads int    // heads on this rank, of C/D
	D     int    // width of a head
}

// LoadCrossAttention reads "q_linear", "kv_linear" and "proj", with biases.
func LoadCrossAttention(w *weights.Weights, c, heads int) CrossAttention {
	d := c / heads
	mine, columns := w.Heads(heads, d)
	return CrossAttention{
		Q:     LoadRows(w.Sub("q_linear"), c, 1, c, columns, true),
		KV:    LoadRows(w.Sub("kv_linear"), c, 2, c, columns, true),
		Proj:  LoadSum(w.Sub("proj"), c, c, columns, HeadParts(heads, d), true),
		Heads: mine.Len(), D: d,
	}
}

// Keys computes the keys and values of text, which are the same in all sampling steps. text (sum L, C) holds the rows of the
// batch one after another; lens are their lengths. The result goes to kv (B, max L, 2, H, D), row by row. Entries after a row's
// length are not written and never read.
func (a CrossAttention) Keys(be kernels.Backend, kv, text kernels.Tensor, lens []int) {
	defer be.Scope()()
	packed := a.KV.Forward(be, text, kernels.Identity) // (sum L, 2C)
	start := 0
	for i, n := range lens {
		row := kv.Index(i).Narrow(0, 0, n) // (L, 2, H, D)
		be.Copy(row, packed.Narrow(0, start, n).Reshape(row.Shape...))
		start += n
	}
}

// AddTo adds proj(attention(stream, text)) to the residual stream (B, T, S, C) in place. kv and lens come from Keys.
func (a CrossAttention) AddTo(be kernels.Backend, stream, kv kernels.Tensor, lens []int) {
	defer be.Scope()()
	b, n, c := stream.Dim(0), stream.Dim(1)*stream.Dim(2), stream.Dim(3)
	stream = stream.Reshape(b, n, c)
	d, text := a.D, kv.Dim(1)
	q := a.Q.Forward(be, stream, kernels.Identity).Reshape(b, n, a.Heads, d) // (B, N, H, D)
	k := kv.Narrow(2, 0, 1).Reshape(b, text, a.Heads, d)                     // (B, max L, H, D)
	v := kv.Narrow(2, 1, 1).Reshape(b, text, a.Heads, d)                     // (B, max L, H, D)
	out := be.Alloc(stream.DType, b, n, a.Heads, d)                          // (B, N, H, D)
	be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: AttentionScale(d), KeyLens: lens})
	a.Proj.AddTo(be, stream, out.Reshape(b, n, a.Heads*d), kernels.Tensor{})
}
