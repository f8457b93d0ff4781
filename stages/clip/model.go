package clip

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vit"
	"latentbeam/stages/weights"
)

// Encoder is a vision encoder with its weights on a device. It is read-only and safe for use by any backend of the device.
type Encoder struct {
	Config
	class     kernels.Tensor // class_embedding (C)
	patch     nn.Linear      // patch_embedding (C, 3 p p), no bias
	positions kernels.Tensor // position_embedding (tokens, C)
	before    vit.Norm       // pre_layrnorm
	layers    []vit.Layer
}

// activations are the activation functions of an mlp.
var activations = map[string]func(kernels.Backend, kernels.Tensor){"gelu": nn.GELU, "quick_gelu": nn.QuickGELU}

// Load loads the layers that the hidden states before the last layer need, by transformers' names. The file may also have the
// last layer, the layers after it, and a whole CLIP's text encoder. The error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Encoder, error) {
	w = w.As(cfg.DType)
	e := loadEncoder(cfg, w, cfg.Layers-1)
	err := w.Check(fmt.Sprintf("vision_model.encoder.layers.%d.*", cfg.Layers-1), "vision_model.post_layernorm.*",
		"vision_model.embeddings.position_ids", "visual_projection.weight", "text_model.*", "text_projection.weight", "logit_scale")
	if err != nil {
		return nil, fmt.Errorf("load the image encoder: %w", err)
	}
	return e, nil
}

// loadEncoder loads the given number of layers and what precedes them.
func loadEncoder(cfg Config, w *weights.Weights, layers int) *Encoder {
	c, p := cfg.Hidden, cfg.PatchSize
	in := w.Sub("vision_model.embeddings")
	e := &Encoder{Config: cfg, class: in.Tensor("class_embedding", c),
		positions: in.Tensor("position_embedding.weight", cfg.Tokens(), c),
		before:    vit.LoadNorm(w.Sub("vision_model.pre_layrnorm"), c, cfg.Eps)}
	if e.patch.W = in.Tensor("patch_embedding.weight", c, cfg.Channels, p, p); !e.patch.W.IsZero() {
		e.patch.W = e.patch.W.Reshape(c, cfg.Channels*p*p)
	}
	e.layers = loadLayers(w.Sub("vision_model"), layers, c, cfg.Intermediate, cfg.Heads, cfg.Act, cfg.Eps)
	return e
}

// loadLayers reads the first n layers of a tower of width c.
func loadLayers(w *weights.Weights, n, c, hidden, heads int, act string, eps float64) (layers []vit.Layer) {
	for i := range n {
		w := w.Subf("encoder.layers.%d", i)
		attn := w.Sub("self_attn")
		l := vit.Layer{Norm1: vit.LoadNorm(w.Sub("layer_norm1"), c, eps), Norm2: vit.LoadNorm(w.Sub("layer_norm2"), c, eps),
			Out:   nn.LoadLinear(attn.Sub("out_proj"), c, c),
			First: nn.LoadLinear(w.Sub("mlp.fc1"), c, hidden), Second: nn.LoadLinear(w.Sub("mlp.fc2"), hidden, c),
			Heads: heads, Act: activations[act]}
		if attn.Has("in_proj_weight") { // in CLIP's own code
			l.Q, l.K, l.V = vit.Fused(attn.Tensor("in_proj_weight", 3*c, c), attn.Tensor("in_proj_bias", 3*c))
		} else {
			l.Q, l.K, l.V = nn.LoadLinear(attn.Sub("q_proj"), c, c), nn.LoadLinear(attn.Sub("k_proj"), c, c), nn.LoadLinear(attn.Sub("v_proj"), c, c)
		}
		layers = append(layers, l)
	}
	return layers
}

// Encode returns the hidden states (tokens, C) of an image before the last layer, in the scope open at the call. pixels (H, W,
// 3) must be normalised and have the encoder's size.
func (e *Encoder) Encode(be kernels.Backend, pixels []float32) kernels.Tensor {
	x := e.tokens(be, pixels)
	for _, l := range e.layers {
		l.Forward(be, x, kernels.Tensor{})
	}
	return x.Index(0)
}

// tokens returns the first layer's input (B, tokens, C) for images (B, H, W, 3).
func (e *Encoder) tokens(be kernels.Backend, pixels []float32) kernels.Tensor {
	b := len(pixels) / (3 * e.ImageSize * e.ImageSize)
	x := vit.Tokens(be, e.DType, b, vit.Patches(pixels, b, e.ImageSize, e.ImageSize, e.PatchSize), e.patch, e.class, e.positions)
	e.before.Into(be, x, x)
	return x
}
