package stdit

import (
	"encoding/json"
	"fmt"

	"latentbeam/stages/nn"
)

// Config describes an STDiT; the names are those of the published config.json.
type Config struct {
	InputSize       [3]int   `json:"input_size"`  // latent (T, H, W) of training; others run too
	InChannels      int      `json:"in_channels"` // latent channels
	PatchSize       nn.Patch `json:"patch_size"`  // (frames, rows, columns)
	HiddenSize      int      `json:"hidden_size"` // C
	Depth           int      `json:"depth"`       // number of blocks
	NumHeads        int      `json:"num_heads"`
	MLPRatio        float64  `json:"mlp_ratio"`        // hidden width of the MLP over C
	PredSigma       bool     `json:"pred_sigma"`       // the output also holds the variance
	CaptionChannels int      `json:"caption_channels"` // width of the text embedding
	ModelMaxLength  int      `json:"model_max_length"` // most text tokens
	SpaceScale      float64  `json:"space_scale"`      // divides spatial positions
	TimeScale       float64  `json:"time_scale"`       // divides temporal positions
}

// DefaultConfig returns STDiT-XL/2, whose values hold for keys that a config.json leaves out.
func DefaultConfig() Config {
	return Config{
		InputSize: [3]int{16, 32, 32}, InChannels: 4, PatchSize: nn.Patch{1, 2, 2},
		HiddenSize: 1152, Depth: 28, NumHeads: 16, MLPRatio: 4, PredSigma: true,
		CaptionChannels: 4096, ModelMaxLength: 120,
		SpaceScale: 1, TimeScale: 1,
	}
}

// ParseConfig reads a published config.json over DefaultConfig. Unknown keys are ignored: the file also
// holds training and library settings.
func ParseConfig(data []byte) (Config, error) {
	c := DefaultConfig()
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("parse stdit config.json: %w", err)
	}
	return c, c.validate()
}

// OutChannels returns the channels that Forward gives: noise and, with pred_sigma, variance.
func (c Config) OutChannels() int {
	if c.PredSigma {
		return 2 * c.InChannels
	}
	return c.InChannels
}

// Limits of a configuration, several times the largest published model.
const (
	maxChannels = 1024
	maxWidth    = 1 << 16
	maxDepth    = 1024
	maxPatch    = 16
	maxText     = 4096
	maxMLPRatio = 64
)

func (c Config) validate() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"in_channels", c.InChannels, maxChannels}, {"hidden_size", c.HiddenSize, maxWidth},
		{"depth", c.Depth, maxDepth}, {"num_heads", c.NumHeads, maxWidth},
		{"patch_size[0]", c.PatchSize[0], maxPatch}, {"patch_size[1]", c.PatchSize[1], maxPatch},
		{"patch_size[2]", c.PatchSize[2], maxPatch}, {"caption_channels", c.CaptionChannels, maxWidth},
		{"model_max_length", c.ModelMaxLength, maxText},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("stdit config.json: %s is %d, must be 1 to %d", f.name, f.value, f.max)
		}
	}
	if c.HiddenSize%c.NumHeads != 0 || c.HiddenSize%4 != 0 {
		return fmt.Errorf("stdit config.json: hidden_size %d must be divisible by num_heads %d and by 4",
			c.HiddenSize, c.NumHeads)
	}
	if !(c.SpaceScale > 0) || !(c.TimeScale > 0) {
		return fmt.Errorf("stdit config.json: space_scale %g and time_scale %g must be positive",
			c.SpaceScale, c.TimeScale)
	}
	if !(c.MLPRatio > 0 && c.MLPRatio <= maxMLPRatio) || int(float64(c.HiddenSize)*c.MLPRatio) < 1 {
		return fmt.Errorf("stdit config.json: mlp_ratio is %g, must be above 0 and at most %d",
			c.MLPRatio, maxMLPRatio)
	}
	return nil
}
