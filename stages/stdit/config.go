package stdit

import (
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
)

// Config describes a denoiser. The names come from the published config.json.
type Config struct {
	Version Version       `json:"-"`
	DType   kernels.DType `json:"-"` // of weights and activations: F32, BF16, and in 1.0 F16
	Int8    bool          `json:"-"` // use 8-bit products in the layers int8Layers

	InputSize       [3]int   `json:"input_size"`  // latent (T, H, W) of training in 1.0; other sizes work too
	InChannels      int      `json:"in_channels"` // latent channels
	PatchSize       nn.Patch `json:"patch_size"`  // (frames, rows, columns)
	HiddenSize      int      `json:"hidden_size"` // C
	Depth           int      `json:"depth"`       // number of blocks; in STDiT3 of each kind
	NumHeads        int      `json:"num_heads"`
	MLPRatio        float64  `json:"mlp_ratio"`        // hidden width of the MLP divided by C
	PredSigma       bool     `json:"pred_sigma"`       // the output also holds the variance
	CaptionChannels int      `json:"caption_channels"` // width of the text embedding
	ModelMaxLength  int      `json:"model_max_length"` // most text tokens

	SpaceScale float64 `json:"space_scale"` // 1.0: divides spatial positions
	TimeScale  float64 `json:"time_scale"`  // 1.0: divides temporal positions

	InputSqSize float64 `json:"input_sq_size"` // from 1.1 on: side in pixels for which positions have scale 1
	QKNorm      bool    `json:"qk_norm"`       // from 1.1 on: queries and keys are normalised

	// KernelSize is the window of temporal attention in 1.3: rows, columns, and -1 for all frames.
	KernelSize     *[3]int `json:"kernel_size"`
	UseSpatialRope bool    `json:"use_spatial_rope"` // 1.3: spatial attention has rotary positions too

	SkipTemporal  bool `json:"skip_temporal"`   // 1.3: only the spatial blocks are trained; refused
	SkipYEmbedder bool `json:"skip_y_embedder"` // training with stored text features; refused
}

// DefaultConfig returns the published model of a version: STDiT-XL/2, STDiT2-XL/2 or STDiT3-XL/2. Its values are the defaults
// for missing keys of a config.json.
func DefaultConfig(v Version) Config {
	c := Config{
		Version: v, InputSize: [3]int{16, 32, 32}, InChannels: 4, PatchSize: nn.Patch{1, 2, 2},
		HiddenSize: 1152, Depth: 28, NumHeads: 16, MLPRatio: 4, PredSigma: true,
		CaptionChannels: 4096, ModelMaxLength: 120,
		SpaceScale: 1, TimeScale: 1,
		InputSqSize: 512, QKNorm: v != OpenSora10,
	}
	switch v {
	case OpenSora11:
		c.ModelMaxLength = 200
	case OpenSora12:
		c.ModelMaxLength = 300
	case OpenSora13:
		c.ModelMaxLength, c.InChannels = 300, 16
		c.KernelSize, c.UseSpatialRope = &[3]int{8, 8, -1}, true
	}
	return c
}

// ParseConfig parses a published config.json over the DefaultConfig of its version. It ignores unknown keys, because the file
// also has training and library settings.
func ParseConfig(data []byte) (Config, error) {
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return Config{}, fmt.Errorf("parse stdit config.json: %w", err)
	}
	class, err := dit.ClassName(data)
	if err != nil {
		return Config{}, err
	}
	v, err := id.version(class)
	if err != nil {
		return Config{}, fmt.Errorf("parse stdit config.json: %w", err)
	}
	c := DefaultConfig(v)
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("parse stdit config.json: %w", err)
	}
	if id.UseSpatialRope == nil {
		c.UseSpatialRope = c.KernelSize != nil
	}
	return c, c.validate()
}

// OutChannels returns the number of channels of Forward's result: noise or velocity and, with pred_sigma, variance.
func (c Config) OutChannels() int {
	if c.PredSigma {
		return 2 * c.InChannels
	}
	return c.InChannels
}

// mlpWidth returns the hidden width of the blocks' MLP.
func (c Config) mlpWidth() int { return int(float64(c.HiddenSize) * c.MLPRatio) }
