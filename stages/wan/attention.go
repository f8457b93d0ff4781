package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// attention is multi-head attention whose queries and keys are normalised over all heads together. A rank with some of the
// heads computes the queries and keys of all heads, for the norm, but only its own values and results.
type attention struct {
	q, k         nn.Linear      // to_q, to_k (C, C)
	v            nn.Linear      // to_v (own columns, C)
	proj         nn.Linear      // to_out.0 (C, own columns)
	normQ, normK kernels.Tensor // norm_q.weight, norm_k.weight (C)
	image        *imageKeys     // for attention to an image; nil: none
	mine         sequence.Range // this rank's heads
	heads, d     int            // all heads, and the width of one
}

// imageKeys makes the keys and values of an image: add_k_proj, norm_added_k and add_v_proj.
type imageKeys struct {
	k, v nn.Linear
	norm kernels.Tensor
}

// loadCross reads the attention to a text, and if the model has an image embedding the attention to that.
func loadCross(w *weights.Weights, cfg Config) attention {
	a := loadAttention(w, cfg)
	if cfg.ImageDim == nil {
		return a
	}
	c := cfg.Hidden()
	_, columns := w.Heads(cfg.Heads, cfg.HeadSize)
	whole := w.Cut(weights.Cut{})
	a.image = &imageKeys{k: nn.LoadLinear(whole.Sub("add_k_proj"), c, c),
		v: nn.LoadRows(w.Sub("add_v_proj"), c, 1, c, columns, true), norm: w.Tensor("norm_added_k.weight", c)}
	return a
}

func loadAttention(w *weights.Weights, cfg Config) attention {
	c, whole := cfg.Hidden(), w.Cut(weights.Cut{})
	mine, columns := w.Heads(cfg.Heads, cfg.HeadSize)
	return attention{
		q: nn.LoadLinear(whole.Sub("to_q"), c, c), k: nn.LoadLinear(whole.Sub("to_k"), c, c),
		v:     nn.LoadRows(w.Sub("to_v"), c, 1, c, columns, true),
		proj:  nn.LoadSum(w.Sub("to_out.0"), c, c, columns, nn.HeadParts(cfg.Heads, cfg.HeadSize), true),
		normQ: w.Tensor("norm_q.weight", c), normK: w.Tensor("norm_k.weight", c),
		mine: mine, heads: cfg.Heads, d: cfg.HeadSize,
	}
}

// normalised writes this rank's heads of RMS(l(x)) w to dst (..., heads, D): x (..., C).
func (a attention) normalised(be kernels.Backend, dst, x kernels.Tensor, l nn.Linear, w kernels.Tensor) {
	defer be.Scope()()
	y := l.Forward(be, x, kernels.Identity)
	spec := kernels.NormSpec{Kind: kernels.RMSNorm, Eps: nn.QKNormEps, Weight: w}
	if a.mine.Len() == a.heads {
		be.Norm(flat(dst), y, spec)
		return
	}
	be.Norm(y, y, spec)
	shape := append(append([]int(nil), x.Shape[:len(x.Shape)-1]...), a.heads, a.d)
	be.Copy(dst, y.Reshape(shape...).Narrow(-2, a.mine.Lo, a.mine.Len()))
}

// flat returns x (..., heads, D) as (..., heads D).
func flat(x kernels.Tensor) kernels.Tensor {
	n := len(x.Shape) - 2
	return x.Reshape(append(append([]int(nil), x.Shape[:n]...), x.Shape[n]*x.Shape[n+1])...)
}

// values writes this rank's heads of the values of x (..., C) to dst (..., heads, D).
func (a attention) values(be kernels.Backend, dst, x kernels.Tensor, l nn.Linear) {
	l.Into(be, flat(dst), x)
}

// qkv returns the normalised queries, keys and values of x (n, T, W, C): (n, T, W, 3, heads, D). The first patches are rotated
// by the angles of rope (T, patches, D/2); the others are padding.
func (a attention) qkv(be kernels.Backend, x kernels.Tensor, rope nn.Rope, patches nn.Span) kernels.Tensor {
	n, t, width, heads := x.Dim(0), x.Dim(1), x.Dim(2), a.mine.Len()
	out := be.Alloc(x.DType, n, t, width, 3, heads, a.d)
	part := func(i int) kernels.Tensor { return out.Narrow(3, i, 1).Reshape(n, t, width, heads, a.d) }
	a.normalised(be, part(0), x, a.q, a.normQ)
	a.normalised(be, part(1), x, a.k, a.normK)
	a.values(be, part(2), x, a.v)
	if patches.Len > 0 {
		rotated := out.Narrow(2, 0, patches.Len).Narrow(3, 0, 2) // (n, T, patches, 2, heads, D)
		angles := func(x kernels.Tensor) kernels.Tensor {
			return x.Narrow(1, patches.Start, patches.Len).Reshape(t, patches.Len, 1, 1, a.d/2).
				Expand(n, t, patches.Len, 2, heads, a.d/2)
		}
		be.Rope(rotated, rotated, angles(rope.Cos), angles(rope.Sin))
	}
	return out
}

// keys writes the keys and values of texts to kv (B, tokens, 2, heads, D). text (sum L + 1, C) has the rows of all texts, one
// text after another, and then the row of padding. The padding row fills each text up.
func (a attention) keys(be kernels.Backend, kv, text kernels.Tensor, lens []int) {
	defer be.Scope()()
	heads, tokens := a.mine.Len(), kv.Dim(1)
	packed := be.Alloc(text.DType, text.Dim(0), 2, heads, a.d)
	part := func(i int) kernels.Tensor { return packed.Narrow(1, i, 1).Reshape(text.Dim(0), heads, a.d) }
	a.normalised(be, part(0), text, a.k, a.normK)
	a.values(be, part(1), text, a.v)
	start, pad := 0, packed.Narrow(0, text.Dim(0)-1, 1)
	for i, n := range lens {
		row := kv.Index(i) // (tokens, 2, heads, D)
		be.Copy(row.Narrow(0, 0, n), packed.Narrow(0, start, n))
		if n < tokens {
			be.Copy(row.Narrow(0, n, tokens-n), pad.Expand(tokens-n, 2, heads, a.d))
		}
		start += n
	}
}

// imageKeys writes the keys and values of images (B, tokens, C) to kv (B, tokens, 2, heads, D).
func (a attention) imageKeys(be kernels.Backend, kv, images kernels.Tensor) {
	heads := a.mine.Len()
	part := func(i int) kernels.Tensor { return kv.Narrow(2, i, 1).Reshape(kv.Dim(0), kv.Dim(1), heads, a.d) }
	a.normalised(be, part(0), images, a.image.k, a.image.norm)
	a.values(be, part(1), images, a.image.v)
}

// addText adds proj(attention(x, text)) to the stream; both are (n, T, W, C), and kv (n, tokens, 2, heads, D) comes from keys.
// With images, which have the layout of kv, the attention to the images is added to the attention to the text before proj.
func (a attention) addText(be kernels.Backend, stream, x, kv, images kernels.Tensor) {
	defer be.Scope()()
	n, tokens, heads := x.Dim(0), x.Dim(1)*x.Dim(2), a.mine.Len()
	q := be.Alloc(x.DType, n, x.Dim(1), x.Dim(2), heads, a.d)
	a.normalised(be, q, x, a.q, a.normQ)
	attend := func(kv kernels.Tensor) kernels.Tensor {
		part := func(i int) kernels.Tensor { return kv.Narrow(2, i, 1).Reshape(n, kv.Dim(1), heads, a.d) }
		out := be.Alloc(x.DType, n, tokens, heads, a.d)
		be.Attention(out, q.Reshape(out.Shape...), part(0), part(1), kernels.AttentionSpec{Scale: nn.AttentionScale(a.d)})
		return out
	}
	out := attend(kv)
	if !images.IsZero() {
		be.Binary(out, out, attend(images), kernels.Add)
	}
	a.add(be, stream, out, kernels.Tensor{})
}

// add adds gate * proj(out) to the stream (n, T, W, C). out has one row of heads x D for each row of the stream.
func (a attention) add(be kernels.Backend, stream, out, gate kernels.Tensor) {
	a.proj.AddTo(be, stream, out.Reshape(stream.Dim(0), stream.Dim(1), stream.Dim(2), a.mine.Len()*a.d), gate)
}
