package kl

import (
	"encoding/json"
	"fmt"
	"math"
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
	// A denoiser sees (latent - ShiftFactor) * ScalingFactor.
	ScalingFactor    float64         `json:"scaling_factor"`
	ShiftFactor      float64         `json:"shift_factor"` // null: 0
	LatentsMean      json.RawMessage `json:"latents_mean"`
	UseQuantConv     bool            `json:"use_quant_conv"`
	UsePostQuantConv bool            `json:"use_post_quant_conv"`
	MidAttention     bool            `json:"mid_block_add_attention"`
}

// Limits of a configuration, several times the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxBlocks   = 8
	maxLayers   = 64
)

// New returns what diffusers takes where config.json is silent.
func New() Config {
	return Config{
		InChannels: 3, OutChannels: 3, LatentChannels: 4, BlockOutChannels: []int{64}, LayersPerBlock: 1,
		NormNumGroups: 32, ActFn: "silu", ScalingFactor: 0.18215,
		UseQuantConv: true, UsePostQuantConv: true, MidAttention: true,
	}
}

// Downscale returns how many pixels a latent position spans in each direction: 8 in published models.
func (c *Config) Downscale() int { return 1 << (len(c.BlockOutChannels) - 1) }

// Validate checks what config.json said; errors name the field.
func (c *Config) Validate() error {
	if n := len(c.BlockOutChannels); n < 1 || n > maxBlocks {
		return fmt.Errorf("vae config.json: block_out_channels has %d entries, must be 1 to %d", n, maxBlocks)
	}
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"in_channels", c.InChannels, maxChannels}, {"out_channels", c.OutChannels, maxChannels},
		{"latent_channels", c.LatentChannels, maxChannels}, {"layers_per_block", c.LayersPerBlock, maxLayers},
		{"norm_num_groups", c.NormNumGroups, maxChannels},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("vae config.json: %s is %d, must be 1 to %d", f.name, f.value, f.max)
		}
	}
	for i, n := range c.BlockOutChannels {
		if n < 1 || n > maxChannels || n%c.NormNumGroups != 0 {
			return fmt.Errorf("vae config.json: block_out_channels[%d] is %d, must be at most %d and "+
				"divisible by norm_num_groups %d", i, n, maxChannels, c.NormNumGroups)
		}
	}
	if !(c.ScalingFactor > 0) || math.IsInf(c.ScalingFactor, 1) {
		return fmt.Errorf("vae config.json: scaling_factor is %g, must be positive", c.ScalingFactor)
	}
	return c.supported()
}

// supported refuses the variants of AutoencoderKL that this package does not compute.
func (c *Config) supported() error {
	if c.ActFn != "silu" {
		return fmt.Errorf("vae config.json: act_fn is %q, only \"silu\" is supported", c.ActFn)
	}
	for _, t := range c.DownBlockTypes {
		if t != "DownEncoderBlock2D" {
			return fmt.Errorf("vae config.json: down_block_types holds %q, "+
				"only \"DownEncoderBlock2D\" is supported", t)
		}
	}
	for _, t := range c.UpBlockTypes {
		if t != "UpDecoderBlock2D" {
			return fmt.Errorf("vae config.json: up_block_types holds %q, "+
				"only \"UpDecoderBlock2D\" is supported", t)
		}
	}
	if len(c.LatentsMean) > 0 && string(c.LatentsMean) != "null" {
		return fmt.Errorf("vae config.json: latents_mean is set, only null is supported")
	}
	if !c.MidAttention {
		return fmt.Errorf("vae config.json: mid_block_add_attention is false, only true is supported")
	}
	return nil
}
