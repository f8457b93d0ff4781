package nn

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// QKNormEps is the epsilon of the RMS norm of queries and keys.
const QKNormEps = 1e-6

// SelfAttention is multi-head attention between the tokens of a video, stored as timm's Attention: one Linear for queries, keys
// and values, one for the output.
type SelfAttention struct {
	QKV   Linear // qkv (3C, C); rows ordered q, k, v, each by head
	Proj  Linear // proj (C, C)
	Heads int    // heads on this rank, of C/D
	D     int    // width of a head

	QKNorm    kernels.Tensor // q_norm.weight and k_norm.weight (2, D) of an RMS norm over each head; none without
	RopeFirst bool           // rotate before the norm, as STDiT2 does; others rotate after it
}

// LoadSelfAttention reads "qkv" (3C, C) and "proj" (C, C), with biases, and with qkNorm "q_norm.weight" and
// "k_norm.weight" (D).
func LoadSelfAttention(w *weights.Weights, c, heads int, qkNorm bool) SelfAttention {
	d := c / heads
	mine, columns := w.Heads(heads, d)
	a := SelfAttention{
		QKV:   LoadRows(w.Sub("qkv"), c, 3, c, columns, true),
		Proj:  LoadSum(w.Sub("proj"), c, c, columns, HeadParts(heads, d), true),
		Heads: mine.Len(), D: d,
	}
	if qkNorm {
		a.QKNorm = w.Stack(d, "q_norm.weight", "k_norm.weight")
	}
	return a
}

// AddSpatial adds gate * proj(attention(x)) to the residual stream in place. The patches of each frame attend to each other.
// stream, x and gate are (B, T, S, C); x may be stream itself. rope, which may be zero, holds the angles of the patches (1, 1,
// S, D/2).
func (a SelfAttention) AddSpatial(be kernels.Backend, stream, x, gate kernels.Tensor, rope Rope) {
	defer be.Scope()()
	qkv := a.project(be, x) // (B, T, S, 3, H, D)
	a.rotate(be, qkv, rope)
	out := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), a.Heads, qkv.Dim(5)) // (B, T, S, H, D)
	a.attend(be, out, qkv)
	a.addOutput(be, stream, out, gate)
}

// addOutput adds gate * proj(out) to the residual stream (B, T, S, C): out (B, T, S, H, D).
func (a SelfAttention) addOutput(be kernels.Backend, stream, out, gate kernels.Tensor) {
	a.Proj.AddTo(be, stream, out.Reshape(out.Dim(0), out.Dim(1), out.Dim(2), a.Heads*a.D), gate)
}

// AddTemporal adds gate * proj(attention(x)) to the residual stream in place. The frames of each patch attend to each other;
// with windows, all tokens of a window do. stream, x and gate are (B, T, S, C). rope, which may be zero, holds the angles of
// the frames (1, T, 1, D/2), or with windows of a window's tokens (rows, columns, T, D/2).
func (a SelfAttention) AddTemporal(be kernels.Backend, stream, x, gate kernels.Tensor, rope Rope, win Windows) {
	defer be.Scope()()
	qkv := a.project(be, x)                                                     // (B, T, S, 3, H, D)
	out := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), a.Heads, qkv.Dim(5)) // (B, T, S, H, D)
	if win == (Windows{}) {
		a.rotate(be, qkv, rope)
		a.attend(be, out.Permute(0, 2, 1, 3, 4), qkv.Permute(0, 2, 1, 3, 4, 5)) // (B, S, T, ...)
	} else {
		a.attendWindows(be, out, qkv, rope, win)
	}
	a.addOutput(be, stream, out, gate)
}

// project returns the queries, keys and values of x (B, T, S, C): (B, T, S, 3, H, D).
func (a SelfAttention) project(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	return a.QKV.Forward(be, x, kernels.Identity).Reshape(x.Dim(0), x.Dim(1), x.Dim(2), 3, a.Heads, a.D)
}

// projectHeads is project for n of this rank's heads, starting at first: (B, T, S, 3, n, D).
func (a SelfAttention) projectHeads(be kernels.Backend, x kernels.Tensor, first, n int) kernels.Tensor {
	if n == a.Heads {
		return a.project(be, x)
	}
	qkv := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), 3, n, a.D)
	for i := range 3 {
		at := (i*a.Heads + first) * a.D
		rows := Linear{W: a.QKV.W.Narrow(0, at, n*a.D), B: a.QKV.B.Narrow(0, at, n*a.D), Int8: a.QKV.Int8}
		dst := qkv.Narrow(-3, i, 1).Reshape(x.Dim(0), x.Dim(1), x.Dim(2), n*a.D)
		rows.linear(be, dst, x, kernels.Epilogue{})
	}
	return qkv
}

// rotate normalises and rotates the queries and keys in qkv (..., 3, H, D) in place.
func (a SelfAttention) rotate(be kernels.Backend, qkv kernels.Tensor, rope Rope) {
	qk := qkv.Narrow(-3, 0, 2) // (..., 2, H, D)
	if a.QKNorm.IsZero() {
		rope.Rotate(be, qk)
		return
	}
	spec := kernels.NormSpec{Kind: kernels.RMSNorm, Eps: QKNormEps, RopeFirst: a.RopeFirst}
	spec.Weight = a.QKNorm.Reshape(2, 1, a.QKNorm.Dim(1)).Expand(qk.Shape...)
	if rope.halves == nil {
		spec.Cos, spec.Sin = rope.expandTo(qk)
	}
	be.Norm(qk, qk, spec)
	if rope.halves != nil { // applied after the norm
		rope.Rotate(be, qk)
	}
}

// attend computes the attention of qkv (..., L, 3, H, D), with one or two leading axes, to out (..., L, H, D).
func (a SelfAttention) attend(be kernels.Backend, out, qkv kernels.Tensor) {
	part := func(i int) kernels.Tensor { // q, k or v: (..., L, H, D)
		return qkv.Narrow(-3, i, 1).Reshape(out.Shape...)
	}
	be.Attention(out, part(0), part(1), part(2), kernels.AttentionSpec{Scale: AttentionScale(out.Dim(-1))})
}

// AttentionScale is the factor 1/sqrt(d) on the scores of heads of width d.
func AttentionScale(d int) float32 { return float32(1 / math.Sqrt(float64(d))) }
