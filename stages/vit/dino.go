package vit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Config describes a network of DINO. The names come from transformers' config.json (ViTModel).
type Config struct {
	ModelType    string  `json:"model_type"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Channels     int     `json:"num_channels"`
	ImageSize    int     `json:"image_size"` // side in pixels of the images in training
	PatchSize    int     `json:"patch_size"` // side in pixels
	Act          string  `json:"hidden_act"`
	Eps          float64 `json:"layer_norm_eps"`
	Bias         bool    `json:"qkv_bias"`
}

// The name of the architecture in config.json, and the epsilon of the norms in DINO's own code. The conversion to transformers
// says 1e-12, which was never used in training. It is read as DINO's epsilon, so that both publications of the weights give the
// same features.
const (
	modelType    = "vit"
	eps          = 1e-6
	convertedEps = 1e-12
)

// Limits of a configuration, several times larger than the largest published network.
const (
	maxWidth  = 1 << 14
	maxLayers = 256
	maxSide   = 1 << 12
)

// ParseConfig parses transformers' config.json.
func ParseConfig(data []byte) (Config, error) {
	c := Config{Hidden: 768, Intermediate: 3072, Layers: 12, Heads: 12, Channels: 3, ImageSize: 224, PatchSize: 16, Act: "gelu",
		Eps: eps, Bias: true}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse config.json of DINO: %w", err)
	}
	if c.Eps == convertedEps {
		c.Eps = eps
	}
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("config.json of DINO: %w", err)
	}
	return c, nil
}

func (c Config) validate() error {
	if err := cmp.Or(
		weights.Within("hidden_size", c.Hidden, maxWidth), weights.Within("intermediate_size", c.Intermediate, 4*maxWidth),
		weights.Within("num_hidden_layers", c.Layers, maxLayers), weights.Within("num_attention_heads", c.Heads, maxWidth),
		weights.Within("image_size", c.ImageSize, maxSide), weights.Within("patch_size", c.PatchSize, maxSide),
	); err != nil {
		return err
	}
	switch {
	case c.ModelType != modelType:
		return fmt.Errorf("model_type is %q, only %s is supported", c.ModelType, modelType)
	case c.Hidden%c.Heads != 0:
		return fmt.Errorf("hidden_size %d is no multiple of num_attention_heads %d", c.Hidden, c.Heads)
	case c.ImageSize%c.PatchSize != 0:
		return fmt.Errorf("image_size %d is no multiple of patch_size %d", c.ImageSize, c.PatchSize)
	case c.Channels != 3:
		return fmt.Errorf("num_channels is %d, only 3 is supported", c.Channels)
	case c.Act != "gelu":
		return fmt.Errorf("hidden_act is %q, only gelu is supported", c.Act)
	case !c.Bias:
		return fmt.Errorf("qkv_bias is false, only true is supported")
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("layer_norm_eps is %g: give a number between 0 and 1", c.Eps)
	}
	return nil
}

// side returns the number of patches on a side in the training images.
func (c Config) side() int { return c.ImageSize / c.PatchSize }

// DINO is the network with its weights on a device. It is read-only and safe for use by any backend of the device.
type DINO struct {
	Config
	class     kernels.Tensor // cls_token (1, 1, C)
	patch     nn.Linear      // patch_embeddings (C, 3 p p)
	positions kernels.Tensor // position_embeddings (1, 1+N, C)
	layers    []Layer
	last      Norm
}

// Load loads the tensors by transformers' names. Queries, keys and values may be one tensor "attention.qkv", as in DINO's own
// code. The error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*DINO, error) {
	c, p := cfg.Hidden, cfg.PatchSize
	in := w.Sub("embeddings")
	d := &DINO{Config: cfg, class: in.Tensor("cls_token", 1, 1, c),
		positions: in.Tensor("position_embeddings", 1, 1+cfg.side()*cfg.side(), c),
		last:      LoadNorm(w.Sub("layernorm"), c, cfg.Eps)}
	d.patch = nn.Linear{W: in.Tensor("patch_embeddings.projection.weight", c, 3, p, p),
		B: in.Tensor("patch_embeddings.projection.bias", c)}
	if !d.patch.W.IsZero() {
		d.patch.W = d.patch.W.Reshape(c, 3*p*p)
	}
	for i := range cfg.Layers {
		d.layers = append(d.layers, loadLayer(w.Subf("encoder.layer.%d", i), cfg))
	}
	w.Hint("the weights of DINO are those of ViT-B/16 without a head: facebook/dino-vitb16, or dino_vitbase16_pretrain.pth after `latentbeam convert`")
	if err := w.Check("pooler.*"); err != nil {
		return nil, fmt.Errorf("load DINO: %w", err)
	}
	return d, nil
}

func loadLayer(w *weights.Weights, cfg Config) Layer {
	c := cfg.Hidden
	l := Layer{Norm1: LoadNorm(w.Sub("layernorm_before"), c, cfg.Eps), Norm2: LoadNorm(w.Sub("layernorm_after"), c, cfg.Eps),
		Out:   nn.LoadLinear(w.Sub("attention.output.dense"), c, c),
		First: nn.LoadLinear(w.Sub("intermediate.dense"), c, cfg.Intermediate), Second: nn.LoadLinear(w.Sub("output.dense"), cfg.Intermediate, c),
		Heads: cfg.Heads, Act: nn.GELU}
	if w.Has("attention.qkv.weight") {
		l.Q, l.K, l.V = Fused(w.Tensor("attention.qkv.weight", 3*c, c), w.Tensor("attention.qkv.bias", 3*c))
		return l
	}
	in := w.Sub("attention.attention")
	l.Q, l.K, l.V = nn.LoadLinear(in.Sub("query"), c, c), nn.LoadLinear(in.Sub("key"), c, c), nn.LoadLinear(in.Sub("value"), c, c)
	return l
}

// Encode returns the class token (B, C) of each image after the last norm, in the scope open at the call. pixels (B, height,
// width, 3) must be normalised. Positions are interpolated for images of another size than in training.
func (d *DINO) Encode(be kernels.Backend, pixels []float32, height, width int) (kernels.Tensor, error) {
	b, p := len(pixels)/(3*height*width), d.PatchSize
	rows, columns := height/p, width/p
	if rows < 1 || columns < 1 {
		return kernels.Tensor{}, fmt.Errorf("images of %dx%d pixels are smaller than a patch of DINO, %d", width, height, p)
	}
	out := be.Alloc(kernels.F32, b, d.Hidden)
	defer be.Scope()()
	positions := d.positions.Reshape(d.positions.Dim(1), d.Hidden)
	if height != d.ImageSize || width != d.ImageSize {
		learnt := make([]float32, positions.Len())
		if err := be.Download(learnt, positions); err != nil {
			return kernels.Tensor{}, err
		}
		positions = be.Alloc(kernels.F32, 1+rows*columns, d.Hidden)
		be.Upload(positions, stretch(learnt, d.side(), rows, columns, d.Hidden))
	}
	x := Tokens(be, kernels.F32, b, Patches(pixels, b, height, width, p), d.patch, d.class, positions)
	final := len(d.layers) - 1
	for _, l := range d.layers[:final] {
		l.Forward(be, x, kernels.Tensor{})
	}
	class := d.layers[final].Token(be, x, 0).Reshape(b, d.Hidden)
	d.last.Into(be, out, class)
	return out, nil
}

// stretch interpolates the learnt positions (1+side side, c) to rows x columns patches (1+rows columns, c), as DINO's code
// does: PyTorch's bicubic filter without antialiasing, a = -0.75, with the scale of a size that is larger by a tenth of a
// patch.
func stretch(learnt []float32, side, rows, columns, c int) []float32 {
	out := make([]float32, (1+rows*columns)*c)
	copy(out, learnt[:c])
	grid := learnt[c:]
	down, across := cubicTaps(side, rows), cubicTaps(side, columns)
	for y, v := range down {
		for x, h := range across {
			dst := out[(1+y*columns+x)*c:][:c]
			for i, vw := range v.weights {
				for j, hw := range h.weights {
					src := grid[(v.at[i]*side+h.at[j])*c:][:c]
					w := vw * hw
					for k := range dst {
						dst[k] += float32(w * src[k])
					}
				}
			}
		}
	}
	return out
}

// taps are the four places and weights that give one result.
type taps struct {
	at      [4]int
	weights [4]float32
}

// cubicTaps returns the taps of n results over a line of side numbers.
func cubicTaps(side, n int) []taps {
	const a, more = -0.75, 0.1
	step := float64(side) / (float64(n) + more)
	out := make([]taps, n)
	for i := range out {
		at := step*(float64(i)+0.5) - 0.5
		first := math.Floor(at)
		t := at - first
		for j := range 4 {
			d := math.Abs(t + 1 - float64(j))
			w := ((a*d-5*a)*d+8*a)*d - 4*a
			if d <= 1 {
				w = ((a+2)*d-(a+3))*d*d + 1
			}
			out[i].weights[j] = float32(w)
			out[i].at[j] = min(max(int(first)-1+j, 0), side-1)
		}
	}
	return out
}
