package nn

import (
	"math"

	"latentbeam/kernels"
)

// Axis names the axis of a video's tokens (B, T, S, C) along which self attention mixes.
type Axis int

// The axes of self attention: the patches of one frame, or the frames of one patch.
const (
	Space Axis = iota
	Time
)

// SelfAttention is multi-head attention of a video's tokens to each other along one axis, stored as
// timm's Attention: one Linear for queries, keys and values, one for the output.
type SelfAttention struct {
	QKV   Linear // (3C, C); rows ordered q, k, v, each by head
	Proj  Linear // (C, C)
	Heads int
}

// LoadSelfAttention reads "qkv" (3C, C) and "proj" (C, C), with biases.
func LoadSelfAttention(w *Weights, c, heads int) SelfAttention {
	return SelfAttention{
		QKV: LoadLinear(w.Sub("qkv"), c, 3*c), Proj: LoadLinear(w.Sub("proj"), c, c), Heads: heads,
	}
}

// AddTo adds gate * proj(attention(x)) to the residual stream in place: stream, x and gate (B, T, S, C).
// x may be stream itself.
func (a SelfAttention) AddTo(be kernels.Backend, stream, x kernels.Tensor, axis Axis, gate kernels.Tensor) {
	defer be.Scope()()
	b, t, s, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	d := c / a.Heads
	qkv := a.QKV.Forward(be, x, kernels.Identity).Reshape(b, t, s, 3, a.Heads, d) // (B, T, S, 3, H, D)
	out := be.Alloc(kernels.F32, b, t, s, a.Heads, d)                             // (B, T, S, H, D)

	part := func(i int) kernels.Tensor { // q, k or v
		return sequence(qkv.Narrow(3, i, 1).Reshape(b, t, s, a.Heads, d), axis)
	}
	spec := kernels.AttentionSpec{Scale: AttentionScale(d)}
	be.Attention(sequence(out, axis), part(0), part(1), part(2), spec)
	a.Proj.AddTo(be, stream, out.Reshape(b, t, s, c), gate)
}

// sequence views x (B, T, S, H, D) as sequences along axis: (B, T, S, H, D) or (B, S, T, H, D).
func sequence(x kernels.Tensor, axis Axis) kernels.Tensor {
	if axis == Time {
		return x.Permute(0, 2, 1, 3, 4)
	}
	return x
}

// CrossAttention is multi-head attention of tokens to a text, as PixArt stores it.
type CrossAttention struct {
	Q     Linear // q_linear (C, C)
	KV    Linear // kv_linear (2C, C); rows ordered k, v, each by head
	Proj  Linear // proj (C, C)
	Heads int
}

// LoadCrossAttention reads "q_linear", "kv_linear" and "proj", with biases.
func LoadCrossAttention(w *Weights, c, heads int) CrossAttention {
	return CrossAttention{
		Q: LoadLinear(w.Sub("q_linear"), c, c), KV: LoadLinear(w.Sub("kv_linear"), c, 2*c),
		Proj: LoadLinear(w.Sub("proj"), c, c), Heads: heads,
	}
}

// Keys computes the keys and values of text, which stay the same over all sampling steps. text (sum L, C)
// holds the rows of the batch one after the other, lens their lengths. kv (B, max L, 2, H, D) receives
// them, row by row; what lies behind a row's length is left as it is and never read.
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

// AddTo adds proj(attention(stream, text)) to the residual stream (B, N, C) in place; kv and lens are
// those of Keys.
func (a CrossAttention) AddTo(be kernels.Backend, stream, kv kernels.Tensor, lens []int) {
	defer be.Scope()()
	b, n, c := stream.Dim(0), stream.Dim(1), stream.Dim(2)
	d, text := c/a.Heads, kv.Dim(1)
	q := a.Q.Forward(be, stream, kernels.Identity).Reshape(b, n, a.Heads, d) // (B, N, H, D)
	k := kv.Narrow(2, 0, 1).Reshape(b, text, a.Heads, d)                     // (B, max L, H, D)
	v := kv.Narrow(2, 1, 1).Reshape(b, text, a.Heads, d)                     // (B, max L, H, D)
	out := be.Alloc(kernels.F32, b, n, a.Heads, d)                           // (B, N, H, D)
	be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: AttentionScale(d), KeyLens: lens})
	a.Proj.AddTo(be, stream, out.Reshape(b, n, c), kernels.Tensor{})
}

// AttentionScale is the factor 1/sqrt(d) on the scores of heads of width d.
func AttentionScale(d int) float32 { return float32(1 / math.Sqrt(float64(d))) }
