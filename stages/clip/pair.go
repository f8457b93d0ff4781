package clip

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vit"
	"latentbeam/stages/weights"
)

// PairConfig describes a whole CLIP: a tower for images and a tower for texts, whose embeddings are compared (Radford et al.,
// arXiv 2103.00020).
type PairConfig struct {
	Vision     Config
	Text       TextConfig
	Projection int // width of the embeddings
}

// TextConfig describes a text tower. The names come from transformers' config.json.
type TextConfig struct {
	Vocabulary   int     `json:"vocab_size"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Positions    int     `json:"max_position_embeddings"`
	Act          string  `json:"hidden_act"`
	Eps          float64 `json:"layer_norm_eps"`
}

// ParsePair parses transformers' config.json of a whole CLIP.
func ParsePair(data []byte) (PairConfig, error) {
	whole := struct {
		ModelType  string          `json:"model_type"`
		Projection int             `json:"projection_dim"`
		Text       json.RawMessage `json:"text_config"`
	}{Projection: 512}
	c := PairConfig{Text: TextConfig{Vocabulary: 49408, Hidden: 512, Intermediate: 2048, Layers: 12, Heads: 8, Positions: contextLength,
		Act: "quick_gelu", Eps: 1e-5}}
	if err := json.Unmarshal(data, &whole); err != nil {
		return c, fmt.Errorf("parse config.json of CLIP: %w", err)
	}
	if whole.ModelType != wholeType || whole.Text == nil {
		return c, fmt.Errorf("config.json of CLIP: model_type is %q and text_config %s, want %q with text_config and vision_config",
			whole.ModelType, whole.Text, wholeType)
	}
	var err error
	if c.Vision, err = ParseConfig(data); err != nil {
		return c, err
	}
	if err := json.Unmarshal(whole.Text, &c.Text); err != nil {
		return c, fmt.Errorf("parse text_config of CLIP: %w", err)
	}
	c.Projection = whole.Projection
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("config.json of CLIP: %w", err)
	}
	return c, nil
}

func (c PairConfig) validate() error {
	t := c.Text
	if err := cmp.Or(
		weights.Within("projection_dim", c.Projection, maxWidth), weights.Within("vocab_size", t.Vocabulary, 1<<20),
		weights.Within("hidden_size", t.Hidden, maxWidth), weights.Within("intermediate_size", t.Intermediate, 4*maxWidth),
		weights.Within("num_hidden_layers", t.Layers, maxLayers), weights.Within("num_attention_heads", t.Heads, maxWidth),
		weights.Within("max_position_embeddings", t.Positions, maxSide),
	); err != nil {
		return err
	}
	switch {
	case t.Hidden%t.Heads != 0:
		return fmt.Errorf("hidden_size %d of text_config is no multiple of num_attention_heads %d", t.Hidden, t.Heads)
	case activations[t.Act] == nil:
		return fmt.Errorf("hidden_act of text_config is %q, only gelu and quick_gelu are supported", t.Act)
	case !(t.Eps > 0 && t.Eps < 1):
		return fmt.Errorf("layer_norm_eps of text_config is %g: give a number between 0 and 1", t.Eps)
	}
	return nil
}

// Pair is a whole CLIP with its weights on a device. It is read-only and safe for use by any backend of the device.
type Pair struct {
	PairConfig
	vision  *Encoder
	after   vit.Norm  // post_layernorm
	project nn.Linear // visual_projection (P, C), no bias
	words   kernels.Tensor
	places  kernels.Tensor // position_embedding (positions, C)
	texts   []vit.Layer
	last    vit.Norm       // final_layer_norm
	textOut nn.Linear      // text_projection (P, C), no bias
	scale   kernels.Tensor // logit_scale, a scalar
}

// LoadPair loads a whole CLIP by transformers' names. Two kinds of tensors may also have the form of CLIP's own code: queries,
// keys and values in one "in_proj_weight", and transposed projections "visual.proj" and "text_projection". The error lists
// every tensor that does not fit.
func LoadPair(cfg PairConfig, w *weights.Weights) (*Pair, error) {
	v, t := cfg.Vision, cfg.Text
	in := w.Sub("text_model.embeddings")
	p := &Pair{PairConfig: cfg, vision: loadEncoder(v, w, v.Layers),
		after:   vit.LoadNorm(w.Sub("vision_model.post_layernorm"), v.Hidden, v.Eps),
		project: projection(w, "visual_projection.weight", "visual.proj", v.Hidden, cfg.Projection),
		words:   in.Tensor("token_embedding.weight", t.Vocabulary, t.Hidden),
		places:  in.Tensor("position_embedding.weight", t.Positions, t.Hidden),
		texts:   loadLayers(w.Sub("text_model"), t.Layers, t.Hidden, t.Intermediate, t.Heads, t.Act, t.Eps),
		last:    vit.LoadNorm(w.Sub("text_model.final_layer_norm"), t.Hidden, t.Eps),
		textOut: projection(w, "text_projection.weight", "text_projection", t.Hidden, cfg.Projection),
		scale:   w.Tensor("logit_scale")}
	w.Hint("the weights are those of a whole CLIP, such as openai/clip-vit-base-patch32 (B/32) or openai/clip-vit-large-patch14 (L/14)")
	err := w.Check("vision_model.embeddings.position_ids", "text_model.embeddings.position_ids", "input_resolution",
		"context_length", "vocab_size", "attn_mask")
	if err != nil {
		return nil, fmt.Errorf("load CLIP: %w", err)
	}
	return p, nil
}

// projection reads a matrix without bias: name (out, in), or else the transpose of turned (in, out).
func projection(w *weights.Weights, name, turned string, in, out int) nn.Linear {
	if w.Has(turned) {
		t := w.Tensor(turned, in, out)
		if !t.IsZero() {
			t = t.Permute(1, 0)
		}
		return nn.Linear{W: t}
	}
	return nn.Linear{W: w.Tensor(name, out, in)}
}

// projected returns the embeddings (B, P) of tokens (B, C).
func projected(be kernels.Backend, x kernels.Tensor, norm vit.Norm, by nn.Linear) kernels.Tensor {
	out := be.Alloc(kernels.F32, x.Dim(0), by.W.Dim(0))
	defer be.Scope()()
	y := be.Alloc(x.DType, x.Shape...)
	norm.Into(be, y, x)
	if !by.W.Contiguous() {
		turned := be.Alloc(by.W.DType, by.W.Shape...)
		be.Copy(turned, by.W)
		by.W = turned
	}
	by.Into(be, out, y)
	return out
}

// Images returns the embeddings (B, P) of images, in the scope open at the call. pixels (B, H, W, 3) must be normalised and
// have the tower's size.
func (p *Pair) Images(be kernels.Backend, pixels []float32) kernels.Tensor {
	e := p.vision
	x := e.tokens(be, pixels)
	final := len(e.layers) - 1
	for _, l := range e.layers[:final] {
		l.Forward(be, x, kernels.Tensor{})
	}
	return projected(be, e.layers[final].Token(be, x, 0).Reshape(x.Dim(0), x.Dim(2)), p.after, p.project)
}

// Text returns the embedding (1, P) of a text, in the scope open at the call: the embedding of its last token. ids start and
// end with the start and end tokens, without padding.
func (p *Pair) Text(be kernels.Backend, ids []int32) kernels.Tensor {
	n, c := len(ids), p.PairConfig.Text.Hidden
	x := be.Alloc(p.words.DType, 1, n, c)
	be.Gather(x.Reshape(n, c), p.words, ids)
	be.Binary(x, x, p.places.Narrow(0, 0, n).Reshape(1, n, c), kernels.Add)
	mask := be.Alloc(kernels.F32, 1, n, n)
	be.Upload(mask, causal(n))
	bias := mask.Expand(p.PairConfig.Text.Heads, n, n)
	final := len(p.texts) - 1
	for _, l := range p.texts[:final] {
		l.Forward(be, x, bias)
	}
	return projected(be, p.texts[final].Token(be, x, n-1).Reshape(1, c), p.last, p.textOut)
}

// Scale returns the factor that turns cosines into logits.
func (p *Pair) Scale(be kernels.Backend) (float64, error) {
	logarithm := make([]float32, 1)
	err := be.Download(logarithm, p.scale.Reshape(1))
	return math.Exp(float64(logarithm[0])), err
}

// causal returns a bias for the scores (n, n) that hides later tokens: a number whose exponential is 0.
func causal(n int) []float32 {
	const never = -1e9
	out := make([]float32, n*n)
	for i := range n {
		for j := i + 1; j < n; j++ {
			out[i*n+j] = never
		}
	}
	return out
}

// PairComponent is the name of a whole CLIP among the components of models.
const PairComponent = "clip"

// PairFamily recognises whole CLIPs by their tensors, with the names of transformers or of CLIP's own code (openai/CLIP,
// open_clip).
func PairFamily() weights.Family {
	return weights.Family{
		Component: PairComponent,
		Layouts:   []weights.Layout{original},
		Guess:     guessPair,
		Load: weights.Loader(ParsePair, LoadPair, func(c PairConfig) string {
			v := c.Vision
			return fmt.Sprintf("CLIP: images of %d pixels in patches of %d through %d layers of width %d, texts through %d of width %d",
				v.ImageSize, v.PatchSize, v.Layers, v.Hidden, c.Text.Layers, c.Text.Hidden)
		}),
	}
}

// original is the layout of CLIP's own code.
var original = weights.Layout{Mark: "visual.class_embedding", Rules: weights.Rules(
	`visual\.class_embedding`, "vision_model.embeddings.class_embedding",
	`visual\.positional_embedding`, "vision_model.embeddings.position_embedding.weight",
	`visual\.conv1\.weight`, "vision_model.embeddings.patch_embedding.weight",
	`visual\.ln_pre\.(.*)`, "vision_model.pre_layrnorm.$1",
	`visual\.ln_post\.(.*)`, "vision_model.post_layernorm.$1",
	`visual\.transformer\.resblocks\.(\d+)\.attn\.(.*)`, "vision_model.encoder.layers.$1.self_attn.$2",
	`visual\.transformer\.resblocks\.(\d+)\.ln_(\d)\.(.*)`, "vision_model.encoder.layers.$1.layer_norm$2.$3",
	`visual\.transformer\.resblocks\.(\d+)\.mlp\.c_fc\.(.*)`, "vision_model.encoder.layers.$1.mlp.fc1.$2",
	`visual\.transformer\.resblocks\.(\d+)\.mlp\.c_proj\.(.*)`, "vision_model.encoder.layers.$1.mlp.fc2.$2",
	`positional_embedding`, "text_model.embeddings.position_embedding.weight",
	`token_embedding\.weight`, "text_model.embeddings.token_embedding.weight",
	`ln_final\.(.*)`, "text_model.final_layer_norm.$1",
	`transformer\.resblocks\.(\d+)\.attn\.(.*)`, "text_model.encoder.layers.$1.self_attn.$2",
	`transformer\.resblocks\.(\d+)\.ln_(\d)\.(.*)`, "text_model.encoder.layers.$1.layer_norm$2.$3",
	`transformer\.resblocks\.(\d+)\.mlp\.c_fc\.(.*)`, "text_model.encoder.layers.$1.mlp.fc1.$2",
	`transformer\.resblocks\.(\d+)\.mlp\.c_proj\.(.*)`, "text_model.encoder.layers.$1.mlp.fc2.$2",
)}

// guessPair makes a config.json from the shapes, as OpenAI trained: heads of width 64 and quick_gelu. Other CLIPs have a
// config.json.
func guessPair(s weights.Shapes) ([]byte, error) {
	if names := original.Names(s); names != nil {
		renamed := weights.Shapes{}
		for name, shape := range s {
			renamed[names[name]] = shape
		}
		s = renamed
	}
	const vision, text, headWidth = "vision_model.embeddings.", "text_model.embeddings.", 64
	patch, words := vision+"patch_embedding.weight", text+"token_embedding.weight" // (C, 3, p, p), (V, C)
	width, textWidth := s.Dim(patch, 0), s.Dim(words, 1)
	if !s.Has(patch) || !s.Has(words) || width == publishedWidth { // a larger CLIP has other heads and is used only for its images
		return nil, nil
	}
	if width%headWidth != 0 || textWidth%headWidth != 0 {
		return nil, fmt.Errorf("this is a CLIP of widths %d and %d, whose number of attention heads is not known: write a config.json", width, textWidth)
	}
	projection := s.Dim("visual_projection.weight", 0)
	if s.Has("visual.proj") {
		projection = s.Dim("visual.proj", 1)
	}
	side := int(math.Round(math.Sqrt(float64(s.Dim(vision+"position_embedding.weight", 0) - 1))))
	return json.Marshal(map[string]any{"model_type": wholeType, "projection_dim": projection,
		"vision_config": map[string]any{"hidden_size": width, "num_attention_heads": width / headWidth,
			"intermediate_size": s.Dim("vision_model.encoder.layers.0.mlp.fc1.weight", 0),
			"num_hidden_layers": s.Count("vision_model.encoder.layers.%d.layer_norm1.weight"),
			"patch_size":        s.Dim(patch, 2), "image_size": side * s.Dim(patch, 2)},
		"text_config": map[string]any{"vocab_size": s.Dim(words, 0), "hidden_size": textWidth, "num_attention_heads": textWidth / headWidth,
			"intermediate_size":       s.Dim("text_model.encoder.layers.0.mlp.fc1.weight", 0),
			"num_hidden_layers":       s.Count("text_model.encoder.layers.%d.layer_norm1.weight"),
			"max_position_embeddings": s.Dim(text+"position_embedding.weight", 0)}})
}
