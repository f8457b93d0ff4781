package osplan

import (
	"cmp"
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Config describes a denoiser. The names come from the reference's config.json.
type Config struct {
	DType  kernels.DType `json:"-"` // of weights and activations: F32 or BF16
	Int8   bool          `json:"-"` // use 8-bit products in the layers int8Layers, and 8-bit scores in attention inside a video
	Sparse bool          `json:"-"` // the class of version 1.3

	Heads       int  `json:"num_attention_heads"`
	HeadSize    int  `json:"attention_head_dim"`
	InChannels  int  `json:"in_channels"`
	OutChannels int  `json:"out_channels"` // 0: same as the input
	Layers      int  `json:"num_layers"`
	PatchT      int  `json:"patch_size_t"`
	PatchSize   int  `json:"patch_size"`
	CrossWidth  int  `json:"cross_attention_dim"` // width of the text after its projection
	TextWidth   int  `json:"caption_channels"`
	Bias        bool `json:"attention_bias"`

	Activation string  `json:"activation_fn"`
	NormType   string  `json:"norm_type"` // version 1.2
	NormAffine bool    `json:"norm_elementwise_affine"`
	NormEps    float64 `json:"norm_eps"`

	OnlyCross   bool    `json:"only_cross_attention"`
	DoubleSelf  bool    `json:"double_self_attention"`
	Rope        bool    `json:"use_rope"`    // version 1.2
	DownSampler *string `json:"downsampler"` // version 1.2

	SampleT int   `json:"sample_size_t"` // latent frames of training
	Sample  sides `json:"sample_size"`   // version 1.2: latent rows and columns of training
	SampleH int   `json:"sample_size_h"` // version 1.3: rows
	SampleW int   `json:"sample_size_w"` // version 1.3: columns
	// InterpolationT, InterpolationH and InterpolationW divide positions. If they are missing, version 1.2 computes them from the
	// sizes of training.
	InterpolationT *float64 `json:"interpolation_scale_t"`
	InterpolationH *float64 `json:"interpolation_scale_h"`
	InterpolationW *float64 `json:"interpolation_scale_w"`

	Sparse1D bool `json:"sparse1d"` // version 1.3
	SparseN  int  `json:"sparse_n"` // version 1.3
}

// sides are rows and columns. In JSON they are two numbers, or one number for both.
type sides [2]int

// UnmarshalJSON reads a number or a pair.
func (s *sides) UnmarshalJSON(data []byte) error {
	var one int
	if err := json.Unmarshal(data, &one); err == nil {
		*s = sides{one, one}
		return nil
	}
	return json.Unmarshal(data, (*[2]int)(s))
}

// The class names of config.json.
const (
	class12 = "OpenSoraT2V"
	class13 = "OpenSoraT2V_v1_3"
)

// refused has the classes of the project that are not implemented, and why.
var refused = map[string]string{
	"OpenSoraInpaint":      "inpainting and image to video of version 1.2",
	"OpenSoraInpaint_v1_3": "inpainting and image to video of version 1.3",
	"OpenSoraT2V_v1_5":     "SparseUMMDiT of version 1.5",
	"LatteT2V":             "versions 1.0 and 1.1",
	"UDiTT2V":              "UDiT",
}

// textTokens is the longest text of the published configurations.
const textTokens = 512

// DefaultConfig returns ROPE-L/122 of version 1.2, or with sparse 2B/122 of version 1.3.
func DefaultConfig(sparse bool) Config {
	one := 1.0
	c := Config{Sparse: sparse, Heads: 24, HeadSize: 96, InChannels: 4, OutChannels: 4, Layers: 32, PatchT: 1, PatchSize: 2,
		CrossWidth: 2304, TextWidth: 4096, Bias: true, Activation: "gelu-approximate", NormType: "ada_norm_single",
		NormEps: 1e-6, Rope: true, SampleT: 24, Sample: sides{60, 80}, InterpolationT: &one, InterpolationH: &one,
		InterpolationW: &one}
	if sparse {
		c.InChannels, c.OutChannels, c.Sparse1D, c.SparseN = 8, 8, true, 4
	}
	return c
}

// classDefaults returns the reference's defaults for missing keys of a config.json.
func classDefaults(sparse bool) Config {
	c := Config{Sparse: sparse, Heads: 16, HeadSize: 88, Layers: 1, Activation: "geglu", NormType: "layer_norm",
		NormAffine: true, NormEps: 1e-5}
	if sparse {
		one := 1.0
		c.NormType, c.NormAffine, c.NormEps, c.Rope, c.Bias, c.SparseN = "ada_norm_single", false, 1e-6, true, true, 2
		c.InterpolationT, c.InterpolationH, c.InterpolationW = &one, &one, &one
	}
	return c
}

// ParseConfig parses a published config.json. It returns an error for configurations that the network does not support.
func ParseConfig(data []byte) (Config, error) {
	class, err := dit.ClassName(data)
	if err != nil {
		return Config{}, err
	}
	if what, ok := refused[class]; ok {
		return Config{}, fmt.Errorf("config.json of Open-Sora-Plan: %s is %s, which is not supported; there are %s (1.2) and %s "+
			"(1.3), text to video", class, what, class12, class13)
	}
	c := classDefaults(class == class13)
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse config.json of Open-Sora-Plan: %w", err)
	}
	if c.OutChannels == 0 {
		c.OutChannels = c.InChannels
	}
	if err := c.validate(); err != nil {
		return c, fmt.Errorf("config.json of Open-Sora-Plan: %w", err)
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
		weights.Within("in_channels", c.InChannels, maxWidth), weights.Within("caption_channels", c.TextWidth, maxWidth),
		weights.Within("num_layers", c.Layers, maxLayers),
	); err != nil {
		return err
	}
	only := func(name string, ok bool, have, want any) error {
		if ok {
			return nil
		}
		return fmt.Errorf("%s is %v, only %v is supported", name, have, want)
	}
	for _, err := range []error{
		only("attention_head_dim", c.HeadSize%6 == 0, c.HeadSize, "a multiple of 6"),
		only("num_attention_heads times attention_head_dim", c.Hidden() <= maxWidth, c.Hidden(), "up to 65536"),
		only("out_channels", c.OutChannels == c.InChannels, c.OutChannels, "as many as in_channels"),
		only("patch_size_t", c.PatchT == 1, c.PatchT, 1), only("patch_size", c.PatchSize == 2, c.PatchSize, 2),
		only("cross_attention_dim", c.CrossWidth == c.Hidden(), c.CrossWidth, c.Hidden()),
		only("attention_bias", c.Bias, c.Bias, true),
		only("activation_fn", c.Activation == "gelu-approximate", c.Activation, "gelu-approximate"),
		only("norm_type", c.NormType == "ada_norm_single", c.NormType, "ada_norm_single"),
		only("norm_elementwise_affine", !c.NormAffine, c.NormAffine, false),
		only("norm_eps", c.NormEps == nn.LayerNormEps, c.NormEps, nn.LayerNormEps),
		only("only_cross_attention", !c.OnlyCross, c.OnlyCross, false),
		only("double_self_attention", !c.DoubleSelf, c.DoubleSelf, false),
		only("use_rope", c.Rope, c.Rope, true),
	} {
		if err != nil {
			return err
		}
	}
	if c.DownSampler != nil && *c.DownSampler != "" {
		return fmt.Errorf("downsampler is %q, only null is supported", *c.DownSampler)
	}
	if c.Sparse1D && c.SparseN != 1 && c.SparseN != 4 {
		return fmt.Errorf("sparse_n is %d, only 1 and 4 are supported, as in the reference", c.SparseN)
	}
	for i, s := range c.scales() {
		if !(s > 0) {
			return fmt.Errorf("interpolation_scale_%c is %g: give a number above 0, or sample_size_t and sample_size", "thw"[i], s)
		}
	}
	return nil
}

// Hidden returns the width of a token in the blocks.
func (c Config) Hidden() int { return c.Heads * c.HeadSize }

// patch is the size of a patch.
func (c Config) patch() nn.Patch { return nn.Patch{c.PatchT, c.PatchSize, c.PatchSize} }

// scales returns the divisors of positions for frames, rows and columns.
func (c Config) scales() [3]float64 {
	out := [3]float64{float64(c.SampleT) / 16, float64(c.Sample[0]) / 30, float64(c.Sample[1]) / 40}
	if c.SampleT%2 == 1 {
		out[0] = float64((c.SampleT-1)/16 + 1)
	}
	for i, given := range []*float64{c.InterpolationT, c.InterpolationH, c.InterpolationW} {
		if given != nil {
			out[i] = *given
		}
	}
	return out
}

// The first and the last sparse block. The reference has fixed numbers, whatever the number of blocks is.
const firstSparse, lastSparse = 2, 29

// skip returns how block i divides its tokens into sub-sequences.
func (c Config) skip(i int) sequence.Skip {
	switch {
	case !c.Sparse || !c.Sparse1D || i < firstSparse || i > lastSparse:
		return sequence.Skip{}
	case i%2 == 1:
		return sequence.Skip{Ways: c.SparseN, Width: c.SparseN}
	}
	return sequence.Skip{Ways: c.SparseN, Width: 1}
}
