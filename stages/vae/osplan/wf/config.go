package wf

import (
	"cmp"
	"fmt"
	"math"

	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// Config describes a WFVAEModel; the names are those of its config.json.
type Config struct {
	LatentDim         int     `json:"latent_dim"`
	BaseChannels      int     `json:"base_channels"`
	EncoderBlocks     int     `json:"encoder_num_resblocks"`
	EncoderEnergyFlow int     `json:"encoder_energy_flow_hidden_size"`
	DecoderBlocks     int     `json:"decoder_num_resblocks"`
	DecoderEnergyFlow int     `json:"decoder_energy_flow_hidden_size"`
	UseAttention      bool    `json:"use_attention"`
	NormType          string  `json:"norm_type"`
	TimeInterpolation string  `json:"t_interpolation"`
	ConnectBlocks     int     `json:"connect_res_layer_num"`
	Scale             numbers `json:"scale"` // for each latent channel, applied after Shift was subtracted
	Shift             numbers `json:"shift"`

	L1Downsample        string `json:"l1_dowmsample_block"` // this is the published spelling
	L1DownsampleWavelet string `json:"l1_downsample_wavelet"`
	L2Downsample        string `json:"l2_dowmsample_block"`
	L2DownsampleWavelet string `json:"l2_downsample_wavelet"`
	L1Upsample          string `json:"l1_upsample_block"`
	L1UpsampleWavelet   string `json:"l1_upsample_wavelet"`
	L2Upsample          string `json:"l2_upsample_block"`
	L2UpsampleWavelet   string `json:"l2_upsample_wavelet"`
}

// numbers is a list of numbers in a config.json.
type numbers []float64

// The values of t_interpolation.
const (
	linear  = "trilinear"
	nearest = "nearest"
)

// Limits of a configuration, several times larger than the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxLayers   = 64
)

// layers are the layers in the levels of published 4x8x8 models.
var layers = Config{
	L1Downsample: "Downsample", L1DownsampleWavelet: "HaarWaveletTransform2D",
	L2Downsample: "Spatial2xTime2x3DDownsample", L2DownsampleWavelet: "HaarWaveletTransform3D",
	L1Upsample: "Upsample", L1UpsampleWavelet: "InverseHaarWaveletTransform2D",
	L2Upsample: "Spatial2xTime2x3DUpsample", L2UpsampleWavelet: "InverseHaarWaveletTransform3D",
}

// New returns the reference's defaults for missing keys of config.json. Published models set other values of norm_type,
// t_interpolation and connect_res_layer_num.
func New() *Config {
	c := layers
	c.LatentDim, c.BaseChannels, c.EncoderBlocks, c.EncoderEnergyFlow = 8, 128, 2, 64
	c.DecoderBlocks, c.DecoderEnergyFlow, c.ConnectBlocks = 2, 128, 1
	c.UseAttention, c.NormType, c.TimeInterpolation = true, "groupnorm", nearest
	c.Scale = repeated(0.18215, 8)
	c.Shift = repeated(0, 8)
	return &c
}

// NewPublished returns the configuration of the autoencoder of Open-Sora-Plan 1.3.
func NewPublished() *Config {
	c := New()
	c.NormType, c.TimeInterpolation, c.ConnectBlocks = "layernorm", linear, 2
	return c
}

func repeated(v float64, n int) (out numbers) {
	for range n {
		out = append(out, v)
	}
	return out
}

// Validate checks the values of config.json. Errors name the field.
func (c *Config) Validate() error {
	if err := cmp.Or(
		weights.Within("latent_dim", c.LatentDim, maxChannels),
		weights.Within("base_channels", c.BaseChannels, maxChannels/8),
		weights.Within("encoder_energy_flow_hidden_size", c.EncoderEnergyFlow, maxChannels),
		weights.Within("decoder_energy_flow_hidden_size", c.DecoderEnergyFlow, maxChannels),
		weights.Within("encoder_num_resblocks", c.EncoderBlocks, maxLayers),
		weights.Within("decoder_num_resblocks", c.DecoderBlocks, maxLayers),
		weights.Within("connect_res_layer_num", c.ConnectBlocks, maxLayers),
	); err != nil {
		return err
	}
	switch {
	case c.NormType != "layernorm":
		return fmt.Errorf("norm_type is %q, only \"layernorm\" is supported: statistics of a GroupNorm reach over the whole "+
			"clip, so it could not be computed part by part", c.NormType)
	case c.TimeInterpolation != linear && c.TimeInterpolation != nearest:
		return fmt.Errorf("t_interpolation is %q: give %q or %q", c.TimeInterpolation, linear, nearest)
	case c.DecoderEnergyFlow != c.BaseChannels:
		return fmt.Errorf("decoder_energy_flow_hidden_size is %d: connect_l1 and connect_l2 take base_channels, %d",
			c.DecoderEnergyFlow, c.BaseChannels)
	case len(c.Scale) != c.LatentDim || len(c.Shift) != c.LatentDim:
		return fmt.Errorf("scale and shift have %d and %d entries, latent_dim is %d", len(c.Scale), len(c.Shift), c.LatentDim)
	}
	for i, v := range c.Scale {
		if !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("scale[%d] is %g, must be positive", i, v)
		}
	}
	return c.checkLayers()
}

// checkLayers returns an error for unsupported levels, such as in models with 8x8x8.
func (c *Config) checkLayers() error {
	for _, f := range []struct{ name, value, want string }{
		{"l1_dowmsample_block", c.L1Downsample, layers.L1Downsample},
		{"l1_downsample_wavelet", c.L1DownsampleWavelet, layers.L1DownsampleWavelet},
		{"l2_dowmsample_block", c.L2Downsample, layers.L2Downsample},
		{"l2_downsample_wavelet", c.L2DownsampleWavelet, layers.L2DownsampleWavelet},
		{"l1_upsample_block", c.L1Upsample, layers.L1Upsample}, {"l1_upsample_wavelet", c.L1UpsampleWavelet, layers.L1UpsampleWavelet},
		{"l2_upsample_block", c.L2Upsample, layers.L2Upsample}, {"l2_upsample_wavelet", c.L2UpsampleWavelet, layers.L2UpsampleWavelet},
	} {
		if f.value != f.want {
			return fmt.Errorf("%s is %q, only %q is supported", f.name, f.value, f.want)
		}
	}
	return nil
}

// Downscale returns the number of pixels for one latent position in each direction.
func (c *Config) Downscale() int { return 8 }

// Latents returns the shape (C, T', h, w) of the latents of a clip. The error names the parameter that does not fit.
func (c *Config) Latents(frames, height, width int) ([]int, error) {
	d := c.Downscale()
	return stream.Latents(c.LatentDim, frames, height, width, d, d)
}
