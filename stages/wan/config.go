package wan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Config describes a denoiser. The names come from diffusers' config.json.
type Config struct {
	DType kernels.DType `json:"-"` // of weights and activations: F32 or BF16
	Int8  bool          `json:"-"` // use 8-bit products in the layers int8Layers, and 8-bit scores in attention inside a video
	// DenseVSA ignores the gates of FastVideo's sparse attention (to_gate_compress), so that attention is full.
	DenseVSA bool `json:"-"`

	PatchSize     nn.Patch `json:"patch_size"` // (frames, rows, columns)
	Heads         int      `json:"num_attention_heads"`
	HeadSize      int      `json:"attention_head_dim"`
	InChannels    int      `json:"in_channels"`
	OutChannels   int      `json:"out_channels"`
	TextWidth     int      `json:"text_dim"`
	FreqDim       int      `json:"freq_dim"` // width of the timestep's sinusoid
	FFN           int      `json:"ffn_dim"`
	Layers        int      `json:"num_layers"`
	CrossAttnNorm bool     `json:"cross_attn_norm"`
	QKNorm        string   `json:"qk_norm"`
	Eps           float64  `json:"eps"`
	MaxPositions  int      `json:"rope_max_seq_len"` // on one axis of the patch grid

	ImageDim    *int `json:"image_dim"`         // width of a token of an image embedding; nil: there is none
	AddedKV     *int `json:"added_kv_proj_dim"` // width of the keys and values of images, equal to the blocks'; nil: none
	ImageTokens *int `json:"pos_embed_seq_len"` // number of tokens for the first and last frame together; nil: one image
}

// textTokens is the length that the network's texts are padded to.
const textTokens = 512

// className is the name of the architecture in config.json, originalClass its name in the original code.
const (
	className     = "WanTransformer3DModel"
	originalClass = "WanModel"
)

// DefaultConfig returns T2V-14B. As in diffusers, its values are the defaults for missing keys of a config.json.
func DefaultConfig() Config {
	return Config{PatchSize: nn.Patch{1, 2, 2}, Heads: 40, HeadSize: 128, InChannels: 16, OutChannels: 16, TextWidth: 4096,
		FreqDim: nn.SinusoidWidth, FFN: 13824, Layers: 40, CrossAttnNorm: true, QKNorm: "rms_norm_across_heads", Eps: 1e-6,
		MaxPositions: 1024}
}

// ParseConfig parses a published config.json over the DefaultConfig. It returns an error for configurations that the network
// does not support.
func ParseConfig(data []byte) (Config, error) {
	c := DefaultConfig()
	class, err := dit.ClassName(data)
	if err != nil {
		return c, err
	}
	if class == originalClass {
		if c, err = parseOriginal(data, c); err != nil {
			return c, err
		}
	} else if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse config.json of Wan: %w", err)
	}
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("config.json of Wan: %w", err)
	}
	return c, nil
}

// Limits of configurations, far larger than the published ones.
const (
	maxWidth  = 1 << 16
	maxLayers = 1 << 10
)

func (c Config) validate() error {
	if err := cmp.Or(
		weights.Within("num_attention_heads", c.Heads, maxWidth), weights.Within("attention_head_dim", c.HeadSize, maxWidth),
		weights.Within("in_channels", c.InChannels, maxWidth), weights.Within("text_dim", c.TextWidth, maxWidth),
		weights.Within("ffn_dim", c.FFN, 1<<20), weights.Within("freq_dim", c.FreqDim, maxWidth),
		weights.Within("num_layers", c.Layers, maxLayers), weights.Within("rope_max_seq_len", c.MaxPositions, maxWidth),
	); err != nil {
		return err
	}
	switch {
	case c.Hidden() > maxWidth:
		return fmt.Errorf("%d heads of %d are more than %d numbers", c.Heads, c.HeadSize, maxWidth)
	case c.HeadSize%2 != 0 || c.HeadSize < 6:
		return fmt.Errorf("attention_head_dim is %d: rotary positions need an even number from 6 on", c.HeadSize)
	case c.PatchSize != nn.Patch{1, 2, 2}:
		return fmt.Errorf("patch_size is %v, only (1, 2, 2) is supported", c.PatchSize)
	case c.FreqDim%2 != 0:
		return fmt.Errorf("freq_dim is %d: give an even number, for cosines and sines", c.FreqDim)
	case !c.CrossAttnNorm:
		return errors.New("cross_attn_norm is false, only true is supported")
	case c.QKNorm != "rms_norm_across_heads":
		return fmt.Errorf("qk_norm is %q, only rms_norm_across_heads is supported", c.QKNorm)
	case c.Eps != nn.LayerNormEps:
		return fmt.Errorf("eps is %g, only %g is supported", c.Eps, nn.LayerNormEps)
	}
	return c.refuseOthers()
}

// refuseOthers returns an error for related networks that have more inputs.
func (c Config) refuseOthers() error {
	switch {
	case (c.ImageDim == nil) != (c.AddedKV == nil) || c.ImageTokens != nil && c.ImageDim == nil:
		return errors.New("image_dim and added_kv_proj_dim go together, and pos_embed_seq_len needs both")
	case c.ImageDim != nil && (*c.ImageDim < 1 || *c.ImageDim > maxWidth):
		return fmt.Errorf("image_dim is %d: give 1 to %d", *c.ImageDim, maxWidth)
	case c.ImageDim != nil && (*c.AddedKV != c.Hidden() || c.extraChannels() == 0):
		return fmt.Errorf("added_kv_proj_dim is %d and in_channels %d: models with an image embedding have the width of the "+
			"blocks, %d, and take the image beside the latents", *c.AddedKV, c.InChannels, c.Hidden())
	case c.ImageTokens != nil && (*c.ImageTokens < 2 || *c.ImageTokens > maxWidth || *c.ImageTokens%2 != 0):
		return fmt.Errorf("pos_embed_seq_len is %d: give an even number, the tokens of two images", *c.ImageTokens)
	case c.extraChannels() != 0 && c.extraChannels() != maskChannels+c.OutChannels:
		return fmt.Errorf("in_channels is %d and out_channels is %d: text to video has as many, image to video %d more for a "+
			"mask and an image; others are not supported", c.InChannels, c.OutChannels, maskChannels+c.OutChannels)
	}
	return nil
}

// Hidden returns the width of a token in the blocks.
func (c Config) Hidden() int { return c.Heads * c.HeadSize }

// stride returns the number of pixels for one latent position, in height and in width. TI2V-5B's autoencoder has 48 channels.
func (c Config) stride() int {
	if c.OutChannels == 48 {
		return 16
	}
	return 8
}

// axes returns how many of a head's angles depend on frame, row and column.
func (c Config) axes() (frames, rows, cols int) {
	side := c.HeadSize / 6
	return c.HeadSize/2 - 2*side, side, side
}
