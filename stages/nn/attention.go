package nn

import (
	"math"

	"latentbeam/kernels"
)

// QKNormEps is the epsilon of the RMS norm of queries and keys.
const QKNormEps = 1e-6

// SelfAttention is multi-head attention of a video's tokens to each other, stored as timm's Attention: one
// Linear for queries, keys and values, one for the output.
type SelfAttention struct {
	QKV   Linear // qkv (3C, C); rows ordered q, k, v, each by head
	Proj  Linear // proj (C, C)
	Heads int    // that this rank has, of C/D
	D     int    // width of a head

	QNorm, KNorm kernels.Tensor // q_norm.weight, k_norm.weight (D) of an RMS norm over each head; none without
	RopeFirst    bool           // rotate before that norm, as STDiT2 does; the others after it
}

// LoadSelfAttention reads "qkv" (3C, C) and "proj" (C, C), with biases, and with qkNorm "q_norm.weight" and
// "k_norm.weight" (D).
func LoadSelfAttention(w *Weights, c, heads int, qkNorm bool) SelfAttention {
	d := c / heads
	mine, columns := w.Heads(heads, d)
	a := SelfAttention{
		QKV:   LoadRows(w.Sub("qkv"), c, 3, c, columns, true),
		Proj:  LoadSum(w.Sub("proj"), c, c, columns, HeadParts(heads, d), true),
		Heads: mine.Len(), D: d,
	}
	if qkNorm {
		a.QNorm, a.KNorm = w.Tensor("q_norm.weight", c/heads), w.Tensor("k_norm.weight", c/heads)
	}
	return a
}

// AddSpatial adds gate * proj(attention(x)) to the residual stream in place, where the patches of each frame
// attend to each other: stream, x and gate (B, T, S, C). x may be stream itself. rope, which may be none,
// holds the angles of the patches (1, 1, S, D/2).
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

// AddTemporal adds gate * proj(attention(x)) to the residual stream in place, where the frames of each patch
// attend to each other, or with windows all tokens of a window: stream, x and gate (B, T, S, C). rope, which
// may be none, holds the angles of the frames (1, T, 1, D/2), with windows those of a window's tokens
// (rows, columns, T, D/2).
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

// rotate normalises and rotates the queries and keys in qkv (..., 3, H, D) in place.
func (a SelfAttention) rotate(be kernels.Backend, qkv kernels.Tensor, rope Rope) {
	if a.RopeFirst {
		rope.apply(be, qkv)
	}
	for i, weight := range []kernels.Tensor{a.QNorm, a.KNorm} {
		if !weight.IsZero() {
			part := qkv.Narrow(-3, i, 1) // (..., 1, H, D)
			spec := kernels.NormSpec{Kind: kernels.RMSNorm, Eps: QKNormEps, Weight: weight}
			be.Norm(part, part, spec)
		}
	}
	if !a.RopeFirst {
		rope.apply(be, qkv)
	}
}

// attend computes the attention of qkv (..., L, 3, H, D), with one or two leading axes, to out (..., L, H, D).
func (a SelfAttention) attend(be kernels.Backend, out, qkv kernels.Tensor) {
	part := func(i int) kernels.Tensor { // q, k or v: (..., L, H, D)
		return qkv.Narrow(-3, i, 1).Reshape(out.Shape...)
	}
	be.Attention(out, part(0), part(1), part(2), kernels.AttentionSpec{Scale: AttentionScale(out.Dim(-1))})
}

// Windows cuts the patch grid of every frame into windows of Rows x Cols patches, the last ones smaller where
// they do not divide it. The zero value means none.
//
// The reference pads the grid to whole windows and masks the padded keys, which is the same: nothing of a
// padded token reaches another.
type Windows struct {
	Rows, Cols int
	Grid       [2]int // rows and columns of the patch grid, S of them
}

// attendWindows computes the attention inside each window over all its frames: qkv (B, T, S, 3, H, D), out
// (B, T, S, H, D). A band of windows at a time is copied, so that its tokens lie together.
func (a SelfAttention) attendWindows(be kernels.Backend, out, qkv kernels.Tensor, rope Rope, win Windows) {
	b, t, heads, d := out.Dim(0), out.Dim(1), out.Dim(3), out.Dim(4)
	rows, cols := win.Grid[0], win.Grid[1]
	qkv = qkv.Reshape(b, t, rows, cols, 3*heads, d)
	out = out.Reshape(b, t, rows, cols, heads, d)
	for row := 0; row < rows; row += win.Rows {
		h := min(win.Rows, rows-row)
		for col := 0; col < cols; {
			n, w := (cols-col)/win.Cols, win.Cols // whole windows, then the smaller one at the edge
			if n == 0 {
				n, w = 1, cols-col
			}
			band := func(x kernels.Tensor) kernels.Tensor { // (B, n, h, w, T, ., D)
				x = x.Narrow(2, row, h).Narrow(3, col, n*w)
				return x.Reshape(b, t, h, n, w, x.Dim(4), d).Permute(0, 3, 2, 4, 1, 5, 6)
			}
			a.attendBand(be, band(out), band(qkv), rope.Narrow(0, Span{Len: h}).Narrow(1, Span{Len: w}))
			col += n * w
		}
	}
}

// attendBand is attendWindows for n windows side by side: qkv (B, n, h, w, T, 3H, D), out (B, n, h, w, T, H, D),
// both strided, rope (h, w, T, D/2).
func (a SelfAttention) attendBand(be kernels.Backend, out, qkv kernels.Tensor, rope Rope) {
	defer be.Scope()()
	near := be.Alloc(qkv.DType, qkv.Shape...)
	be.Copy(near, qkv)
	b, n, h, w, t, d := out.Dim(0), out.Dim(1), out.Dim(2), out.Dim(3), out.Dim(4), out.Dim(6)
	near = near.Reshape(b*n, h, w, t, 3, a.Heads, d)
	a.rotate(be, near, rope)
	result := be.Alloc(out.DType, b*n, h*w*t, a.Heads, d)
	a.attend(be, result, near.Reshape(b*n, h*w*t, 3, a.Heads, d))
	be.Copy(out, result.Reshape(out.Shape...))
}

// CrossAttention is multi-head attention of tokens to a text, as PixArt stores it.
type CrossAttention struct {
	Q     Linear // q_linear (C, C)
	KV    Linear // kv_linear (2C, C); rows ordered k, v, each by head
	Proj  Linear // proj (C, C)
	Heads int    // that this rank has, of C/D
	D     int    // width of a head
}

// LoadCrossAttention reads "q_linear", "kv_linear" and "proj", with biases.
func LoadCrossAttention(w *Weights, c, heads int) CrossAttention {
	d := c / heads
	mine, columns := w.Heads(heads, d)
	return CrossAttention{
		Q:     LoadRows(w.Sub("q_linear"), c, 1, c, columns, true),
		KV:    LoadRows(w.Sub("kv_linear"), c, 2, c, columns, true),
		Proj:  LoadSum(w.Sub("proj"), c, c, columns, HeadParts(heads, d), true),
		Heads: mine.Len(), D: d,
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

// AddTo adds proj(attention(stream, text)) to the residual stream (B, T, S, C) in place; kv and lens are
// those of Keys.
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

// AttentionScale is the factor 1/sqrt(d) on the scores of heads of width d.
func AttentionScale(d int) float32 { return float32(1 / math.Sqrt(float64(d))) }
