package clip

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Encoder is a vision encoder with its weights on a device. It is read-only and may serve any backend of it.
type Encoder struct {
	Config
	class     kernels.Tensor // class_embedding (C)
	patch     nn.Linear      // patch_embedding (C, 3 p p), no bias
	positions kernels.Tensor // position_embedding (tokens, C)
	before    norm           // pre_layrnorm
	act       func(kernels.Backend, kernels.Tensor)
	layers    []layer
}

// layer is one layer.
type layer struct {
	norm1, norm2  norm
	q, k, v, out  nn.Linear
	first, second nn.Linear // mlp
}

// norm is a LayerNorm with weight and bias (C).
type norm struct{ w, b kernels.Tensor }

// activations are the functions in the middle of an mlp.
var activations = map[string]func(kernels.Backend, kernels.Tensor){"gelu": nn.GELU, "quick_gelu": nn.QuickGELU}

// Load reads the layers that the hidden states before the last layer need, by the names of transformers. The last layer,
// what comes behind it and the text encoder of a whole CLIP may be there. The error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Encoder, error) {
	w = w.As(cfg.DType)
	c, p := cfg.Hidden, cfg.PatchSize
	in := w.Sub("vision_model.embeddings")
	e := &Encoder{Config: cfg, class: in.Tensor("class_embedding", c),
		positions: in.Tensor("position_embedding.weight", cfg.Tokens(), c),
		before:    loadNorm(w.Sub("vision_model.pre_layrnorm"), c), act: activations[cfg.Act]}
	if e.patch.W = in.Tensor("patch_embedding.weight", c, cfg.Channels, p, p); !e.patch.W.IsZero() {
		e.patch.W = e.patch.W.Reshape(c, cfg.Channels*p*p)
	}
	name := func(i int) string { return fmt.Sprintf("vision_model.encoder.layers.%d", i) }
	for i := range cfg.Layers - 1 {
		e.layers = append(e.layers, loadLayer(w.Sub(name(i)), cfg))
	}
	err := w.Check(name(cfg.Layers-1)+".*", "vision_model.post_layernorm.*", "vision_model.embeddings.position_ids",
		"visual_projection.weight", "text_model.*", "text_projection.weight", "logit_scale")
	if err != nil {
		return nil, fmt.Errorf("load the image encoder: %w", err)
	}
	return e, nil
}

func loadNorm(w *weights.Weights, c int) norm {
	return norm{w.Tensor("weight", c), w.Tensor("bias", c)}
}

func loadLayer(w *weights.Weights, cfg Config) layer {
	c := cfg.Hidden
	attn := func(name string) nn.Linear { return nn.LoadLinear(w.Sub("self_attn."+name), c, c) }
	return layer{norm1: loadNorm(w.Sub("layer_norm1"), c), norm2: loadNorm(w.Sub("layer_norm2"), c),
		q: attn("q_proj"), k: attn("k_proj"), v: attn("v_proj"), out: attn("out_proj"),
		first: nn.LoadLinear(w.Sub("mlp.fc1"), c, cfg.Intermediate), second: nn.LoadLinear(w.Sub("mlp.fc2"), cfg.Intermediate, c)}
}

// Encode returns the hidden states (tokens, C) of an image before the last layer, in the scope open at the call. pixels
// (H, W, 3) are normalised, of the encoder's size.
func (e *Encoder) Encode(be kernels.Backend, pixels []float32) kernels.Tensor {
	c, tokens := e.Hidden, e.Tokens()
	x := be.Alloc(e.DType, tokens, c)
	defer be.Scope()()
	vectors := be.Alloc(e.DType, tokens-1, e.Channels*e.PatchSize*e.PatchSize)
	be.Upload(vectors, e.patchVectors(pixels))
	be.Copy(x.Narrow(0, 0, 1), e.class.Reshape(1, c))
	be.Copy(x.Narrow(0, 1, tokens-1), e.patch.Forward(be, vectors, kernels.Identity))
	be.Binary(x, x, e.positions, kernels.Add)
	be.Norm(x, x, e.norm(e.before))
	for _, l := range e.layers {
		e.forward(be, l, x)
	}
	return x
}

// patchVectors returns the patches of pixels (H, W, 3) as rows of (3, p, p).
func (e *Encoder) patchVectors(pixels []float32) []float32 {
	side, p := e.patches(), e.PatchSize
	out := make([]float32, 0, len(pixels))
	for i := range side * side {
		for c := range e.Channels {
			for j := range p * p {
				y, x := i/side*p+j/p, i%side*p+j%p
				out = append(out, pixels[(y*e.ImageSize+x)*e.Channels+c])
			}
		}
	}
	return out
}

func (e *Encoder) norm(n norm) kernels.NormSpec {
	return kernels.NormSpec{Kind: kernels.LayerNorm, Eps: float32(e.Eps), Weight: n.w, Bias: n.b}
}

// forward takes the tokens x (N, C) through a layer, in place.
func (e *Encoder) forward(be kernels.Backend, l layer, x kernels.Tensor) {
	defer be.Scope()()
	tokens, c, heads := x.Dim(0), x.Dim(1), e.Heads
	y := be.Alloc(x.DType, tokens, c)
	be.Norm(y, x, e.norm(l.norm1))
	part := func(of nn.Linear) kernels.Tensor {
		return of.Forward(be, y, kernels.Identity).Reshape(1, tokens, heads, c/heads)
	}
	q, k, v := part(l.q), part(l.k), part(l.v)
	out := be.Alloc(x.DType, q.Shape...)
	be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: nn.AttentionScale(c / heads)})
	l.out.AddTo(be, x, out.Reshape(tokens, c), kernels.Tensor{})
	be.Norm(y, x, e.norm(l.norm2))
	h := l.first.Forward(be, y, kernels.Identity)
	e.act(be, h)
	l.second.AddTo(be, x, h, kernels.Tensor{})
}
