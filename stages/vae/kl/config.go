package kl

import (
	"cmp"
	"fmt"
	"math"

	"latentbeam/stages/weights"
)

// Config describes an AutoencoderKL; the names are those of diffusers' config.json.
type Config struct {
	InChannels       int      `json:"in_channels"`
	OutChannels      int      `json:"out_channels"`
	LatentChannels   int      `json:"latent_channels"`
	BlockOutChannels []int    `json:"block_out_channels"`
	LayersPerBlock   int      `json:"layers_per_block"`
	NormNumGroups    int      `json:"norm_num_groups"`
	ActFn            string   `json:"act_fn"`
	DownBlockTypes   []string `json:"down_block_types"`
	UpBlockTypes     []string `json:"up_block_types"`
	// The denoiser's latent is (latent - Mean) / Std * ScalingFactor for each channel. Without LatentsMean and LatentsStd, Mean
	// is ShiftFactor and Std is 1.
	ScalingFactor    float64   `json:"scaling_factor"`
	ShiftFactor      float64   `json:"shift_factor"` // null: 0
	LatentsMean      []float64 `json:"latents_mean"`
	LatentsStd       []float64 `json:"latents_std"`
	UseQuantConv     bool      `json:"use_quant_conv"`
	UsePostQuantConv bool      `json:"use_post_quant_conv"`
	MidAttention     bool      `json:"mid_block_add_attention"`
}

// Limits of a configuration, several times larger than the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxBlocks   = 8
	maxLayers   = 64
)

// New returns diffusers' defaults for missing keys of config.json.
func New() Config {
	return Config{
		InChannels: 3, OutChannels: 3, LatentChannels: 4, BlockOutChannels: []int{64}, LayersPerBlock: 1,
		NormNumGroups: 32, ActFn: "silu", ScalingFactor: 0.18215,
		UseQuantConv: true, UsePostQuantConv: true, MidAttention: true,
	}
}

// Channel returns the mean and deviation of a latent channel.
func (c *Config) Channel(i int) (mean, std float64) {
	if len(c.LatentsMean) == 0 {
		return c.ShiftFactor, 1
	}
	return c.LatentsMean[i], c.LatentsStd[i]
}

// IsPlain reports whether the denoiser's latents differ only by the scaling factor.
func (c *Config) IsPlain() bool { return len(c.LatentsMean) == 0 && c.ShiftFactor == 0 }

// Downscale returns the number of pixels for one latent position in each direction: 8 in published models.
func (c *Config) Downscale() int { return 1 << (len(c.BlockOutChannels) - 1) }

// Latents returns the shape (C, T, h, w) of the latents of a clip. Each frame becomes one latent frame.
func (c *Config) Latents(frames, height, width int) ([]int, error) {
	d := c.Downscale()
	return []int{c.LatentChannels, frames, height / d, width / d}, nil
}

// Validate checks the values of config.json. Errors name the field.
func (c *Config) Validate() error {
	if n := len(c.BlockOutChannels); n < 1 || n > maxBlocks {
		return fmt.Errorf("block_out_channels has %d entries, must be 1 to %d", n, maxBlocks)
	}
	if err := cmp.Or(
		weights.Within("in_channels", c.InChannels, maxChannels),
		weights.Within("out_channels", c.OutChannels, maxChannels),
		weights.Within("latent_channels", c.LatentChannels, maxChannels),
		weights.Within("layers_per_block", c.LayersPerBlock, maxLayers),
		weights.Within("norm_num_groups", c.NormNumGroups, maxChannels),
	); err != nil {
		return err
	}
	for i, n := range c.BlockOutChannels {
		if n < 1 || n > maxChannels || n%c.NormNumGroups != 0 {
			return fmt.Errorf("block_out_channels[%d] is %d, must be at most %d and "+
				"divisible by norm_num_groups %d", i, n, maxChannels, c.NormNumGroups)
		}
	}
	if !(c.ScalingFactor > 0) || math.IsInf(c.ScalingFactor, 1) {
		return fmt.Errorf("scaling_factor is %g, must be positive", c.ScalingFactor)
	}
	return c.supported()
}

// supported returns an error for variants of AutoencoderKL that this package does not implement.
func (c *Config) supported() error {
	if c.ActFn != "silu" && c.ActFn != "swish" {
		return fmt.Errorf("act_fn is %q, only \"silu\" is supported, which \"swish\" is too", c.ActFn)
	}
	for _, f := range []struct {
		name, plain, attending string
		types                  []string
	}{{"down_block_types", downBlockType, downAttnType, c.DownBlockTypes}, {"up_block_types", upBlockType, upAttnType, c.UpBlockTypes}} {
		for _, t := range f.types {
			if t != f.plain && t != f.attending {
				return fmt.Errorf("%s holds %q, only %q and %q are supported", f.name, t, f.plain, f.attending)
			}
		}
	}
	if n, m := len(c.LatentsMean), len(c.LatentsStd); (n > 0 || m > 0) && (n != c.LatentChannels || m != n) {
		return fmt.Errorf("latents_mean and latents_std have %d and %d entries, latent_channels is %d", n, m,
			c.LatentChannels)
	}
	for i, std := range c.LatentsStd {
		if !(std > 0) || math.IsInf(std, 1) {
			return fmt.Errorf("latents_std[%d] is %g, must be positive", i, std)
		}
	}
	return nil
}

// The types of blocks, with or without an attention after each resnet.
const (
	downBlockType, downAttnType = "DownEncoderBlock2D", "AttnDownEncoderBlock2D"
	upBlockType, upAttnType     = "UpDecoderBlock2D", "AttnUpDecoderBlock2D"
)

// attends reports whether block i of types has attention.
func attends(types []string, i int) bool {
	return i < len(types) && (types[i] == downAttnType || types[i] == upAttnType)
}
