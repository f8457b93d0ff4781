package clip

import (
	"cmp"
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// Config describes a vision encoder. The names come from transformers' config.json.
type Config struct {
	ModelType    string  `json:"model_type"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Channels     int     `json:"num_channels"`
	ImageSize    int     `json:"image_size"` // side in pixels
	PatchSize    int     `json:"patch_size"` // side in pixels
	Act          string  `json:"hidden_act"`
	Eps          float64 `json:"layer_norm_eps"`

	DType kernels.DType `json:"-"` // of weights and activations: F32 or BF16
}

// The names of the architecture in config.json, and of a whole CLIP, which contains it as vision_config.
const (
	modelType = "clip_vision_model"
	wholeType = "clip"
)

// Limits of a configuration, several times larger than the largest published encoder.
const (
	maxWidth  = 1 << 14
	maxLayers = 256
	maxSide   = 1 << 12
)

// ParseConfig parses transformers' config.json.
func ParseConfig(data []byte) (Config, error) {
	var whole struct {
		ModelType string          `json:"model_type"`
		Vision    json.RawMessage `json:"vision_config"`
	}
	c := Config{Channels: 3, Act: "quick_gelu", Eps: 1e-5, Layers: 12, Heads: 12, Hidden: 768, Intermediate: 3072,
		ImageSize: 224, PatchSize: 32}
	if json.Unmarshal(data, &whole) == nil && whole.ModelType == wholeType && whole.Vision != nil {
		c.ModelType, data = modelType, whole.Vision
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse config.json of the image encoder: %w", err)
	}
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("config.json of the image encoder: %w", err)
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
	case activations[c.Act] == nil:
		return fmt.Errorf("hidden_act is %q, only gelu and quick_gelu are supported", c.Act)
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("layer_norm_eps is %g: give a number between 0 and 1", c.Eps)
	case c.Layers < 2:
		return fmt.Errorf("num_hidden_layers is %d: give 2 or more, the last one is left out", c.Layers)
	}
	return nil
}

// Tokens returns the number of tokens for an image: one for the image, and one for each patch.
func (c Config) Tokens() int { return 1 + c.patches()*c.patches() }

// patches returns the number of patches on a side.
func (c Config) patches() int { return c.ImageSize / c.PatchSize }
