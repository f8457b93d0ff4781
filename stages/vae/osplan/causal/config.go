package causal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// Config describes a CausalVAEModel; the names are those of its config.json.
type Config struct {
	HiddenSize      int   `json:"hidden_size"`
	ZChannels       int   `json:"z_channels"`
	HiddenSizeMult  []int `json:"hidden_size_mult"`
	AttnResolutions []int `json:"attn_resolutions"`
	DoubleZ         bool  `json:"double_z"`
	EmbedDim        int   `json:"embed_dim"`
	NumResBlocks    int   `json:"num_res_blocks"`
	UseQuantLayer   bool  `json:"use_quant_layer"`
	// NormType comes from v1.3's code; files of v1.2 do not have it.
	NormType string `json:"norm_type"`
	QConv    string `json:"q_conv"`

	EncoderConvIn    string   `json:"encoder_conv_in"`
	EncoderConvOut   string   `json:"encoder_conv_out"`
	EncoderAttention string   `json:"encoder_attention"`
	EncoderBlocks    []string `json:"encoder_resnet_blocks"`
	EncoderSpace     []string `json:"encoder_spatial_downsample"`
	EncoderTime      []string `json:"encoder_temporal_downsample"`
	EncoderMiddle    string   `json:"encoder_mid_resnet"`

	DecoderConvIn    string   `json:"decoder_conv_in"`
	DecoderConvOut   string   `json:"decoder_conv_out"`
	DecoderAttention string   `json:"decoder_attention"`
	DecoderBlocks    []string `json:"decoder_resnet_blocks"`
	DecoderSpace     []string `json:"decoder_spatial_upsample"`
	DecoderTime      []string `json:"decoder_temporal_upsample"`
	DecoderMiddle    string   `json:"decoder_mid_resnet"`
}

// GroupFrames frames, or GroupLatents latent frames, are computed together. Adjacent groups share one frame.
const (
	GroupFrames  = 29
	GroupLatents = (GroupFrames-1)/stream.Factor + 1
)

// Limits of a configuration, several times larger than the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxLevels   = 8
	maxLayers   = 64
)

// groups is the number of groups of every norm.
const groups = 32

// The layers that config.json may name.
const (
	conv2D = "Conv2d"
	conv3D = "CausalConv3d"

	block2D = "ResnetBlock2D"
	block3D = "ResnetBlock3D"

	// attentionMixed interprets the memory of channels and frames in a different shape, as the reference's first attention did.
	attentionMixed  = "AttnBlock3D"
	attentionFrames = "AttnBlock3DFix"
)

// resize describes a layer that halves or doubles.
type resize struct {
	frames      int  // of its kernel
	space, time bool // which axes it halves or doubles
	single      bool // a Conv2d
	linear      bool // enlarge by interpolation, not by nearest neighbour
}

// halvings and doublings are the layers between levels. Layers over time only have no tensors.
var (
	halvings = map[string]resize{
		"Downsample":                  {frames: 1, space: true, single: true},
		"SpatialDownsample2x":         {frames: 1, space: true},
		"Spatial2x3DDownsample":       {frames: 3, space: true},
		"Spatial2xTime2x3DDownsample": {frames: 3, space: true, time: true},
	}
	doublings = map[string]resize{
		"Upsample":                  {frames: 1, space: true, single: true},
		"SpatialUpsample2x":         {frames: 1, space: true},
		"Spatial2x3DUpsample":       {frames: 3, space: true, linear: true},
		"Spatial2xTime2x3DUpsample": {frames: 3, space: true, time: true, linear: true},
	}
	timeHalvings  = map[string]resize{"TimeDownsample2x": {time: true}}
	timeDoublings = map[string]resize{"TimeUpsample2x": {time: true}}
)

// New returns the reference's defaults for missing keys of config.json.
func New() *Config {
	blocks := []string{block3D, block3D, block3D, block3D}
	return &Config{
		HiddenSize: 128, ZChannels: 4, HiddenSizeMult: []int{1, 2, 4, 4}, DoubleZ: true, EmbedDim: 4, NumResBlocks: 2,
		UseQuantLayer: true, NormType: "groupnorm", QConv: conv3D,
		EncoderConvIn: conv3D, EncoderConvOut: conv3D, EncoderAttention: attentionMixed, EncoderBlocks: blocks,
		EncoderSpace: []string{"SpatialDownsample2x", "SpatialDownsample2x", "SpatialDownsample2x", ""},
		EncoderTime:  []string{"", "TimeDownsample2x", "TimeDownsample2x", ""}, EncoderMiddle: block3D,
		DecoderConvIn: conv3D, DecoderConvOut: conv3D, DecoderAttention: attentionMixed, DecoderBlocks: slices.Clone(blocks),
		DecoderSpace: []string{"", "SpatialUpsample2x", "SpatialUpsample2x", "SpatialUpsample2x"},
		DecoderTime:  []string{"", "", "TimeUpsample2x", "TimeUpsample2x"}, DecoderMiddle: block3D,
	}
}

// NewPublished returns the configuration of the autoencoder of Open-Sora-Plan 1.2. The reference's repositories do not say
// which attention it has.
func NewPublished() *Config {
	c := New()
	c.EncoderConvIn = conv2D
	c.EncoderAttention, c.DecoderAttention = attentionFrames, attentionFrames
	c.EncoderBlocks = []string{block2D, block2D, block3D, block3D}
	c.EncoderSpace = []string{"Downsample", "Spatial2xTime2x3DDownsample", "Spatial2xTime2x3DDownsample", ""}
	c.DecoderSpace = []string{"", "SpatialUpsample2x", "Spatial2xTime2x3DUpsample", "Spatial2xTime2x3DUpsample"}
	c.EncoderTime, c.DecoderTime = make([]string, 4), make([]string, 4)
	return c
}

// Validate checks the values of config.json. Errors name the field.
func (c *Config) Validate() error {
	levels := len(c.HiddenSizeMult)
	if levels < 2 || levels > maxLevels {
		return fmt.Errorf("hidden_size_mult has %d entries, must be 2 to %d", levels, maxLevels)
	}
	if err := cmp.Or(
		weights.Within("hidden_size", c.HiddenSize, maxChannels),
		weights.Within("z_channels", c.ZChannels, maxChannels), weights.Within("embed_dim", c.EmbedDim, maxChannels),
		weights.Within("num_res_blocks", c.NumResBlocks, maxLayers),
	); err != nil {
		return err
	}
	for i, m := range append([]int{1}, c.HiddenSizeMult...) {
		if m < 1 || m > maxChannels || m*c.HiddenSize > maxChannels || m*c.HiddenSize%groups != 0 {
			return fmt.Errorf("hidden_size_mult[%d] is %d, times hidden_size %d it must be at most %d and divisible by %d",
				max(0, i-1), m, c.HiddenSize, maxChannels, groups)
		}
	}
	switch {
	case len(c.AttnResolutions) > 0:
		return fmt.Errorf("attn_resolutions is %v, only [] is supported", c.AttnResolutions)
	case !c.DoubleZ:
		return fmt.Errorf("double_z must be true")
	case c.NormType != "groupnorm":
		return fmt.Errorf("norm_type is %q, only \"groupnorm\" is supported", c.NormType)
	case !c.UseQuantLayer && c.EmbedDim != c.ZChannels:
		return fmt.Errorf("use_quant_layer is false: embed_dim must be z_channels, %d", c.ZChannels)
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	return c.checkSteps()
}

// checkNames returns an error for unsupported kinds of layers.
func (c *Config) checkNames() error {
	convs, blocks := []string{conv2D, conv3D}, []string{block2D, block3D}
	attentions := []string{attentionMixed, attentionFrames}
	for _, f := range []struct {
		name   string
		values []string
		known  []string
		levels bool // one value for each level
	}{
		{"q_conv", []string{c.QConv}, convs, false}, {"encoder_conv_in", []string{c.EncoderConvIn}, convs, false},
		{"encoder_conv_out", []string{c.EncoderConvOut}, convs, false}, {"decoder_conv_in", []string{c.DecoderConvIn}, convs, false},
		{"decoder_conv_out", []string{c.DecoderConvOut}, convs, false},
		{"encoder_attention", []string{c.EncoderAttention}, attentions, false},
		{"decoder_attention", []string{c.DecoderAttention}, attentions, false},
		{"encoder_mid_resnet", []string{c.EncoderMiddle}, blocks, false}, {"decoder_mid_resnet", []string{c.DecoderMiddle}, blocks, false},
		{"encoder_resnet_blocks", c.EncoderBlocks, blocks, true}, {"decoder_resnet_blocks", c.DecoderBlocks, blocks, true},
		{"encoder_spatial_downsample", c.EncoderSpace, names(halvings), true},
		{"encoder_temporal_downsample", c.EncoderTime, names(timeHalvings), true},
		{"decoder_spatial_upsample", c.DecoderSpace, names(doublings), true},
		{"decoder_temporal_upsample", c.DecoderTime, names(timeDoublings), true},
	} {
		if f.levels && len(f.values) != len(c.HiddenSizeMult) {
			return fmt.Errorf("%s has %d entries, hidden_size_mult has %d", f.name, len(f.values), len(c.HiddenSizeMult))
		}
		for _, v := range f.values {
			if !slices.Contains(f.known, v) {
				return fmt.Errorf("%s holds %q, known are %s", f.name, v, strings.Join(quoted(f.known), ", "))
			}
		}
	}
	return nil
}

// names returns the names of layers, with the empty name for no layer.
func names(m map[string]resize) []string {
	return slices.Concat([]string{""}, slices.Sorted(maps.Keys(m)))
}

func quoted(all []string) (out []string) {
	for _, v := range all {
		out = append(out, fmt.Sprintf("%q", v))
	}
	return out
}

// checkSteps returns an error if the decoder does not double what the encoder halves. Both use 4 frames and the same pixels for
// a latent position; the last level of the encoder and the first of the decoder change nothing.
func (c *Config) checkSteps() error {
	steps := func(space, time []string, one, two map[string]resize) (spaces, times int) {
		for i := range space {
			for _, r := range []resize{one[space[i]], two[time[i]]} {
				if r.space {
					spaces++
				}
				if r.time {
					times++
				}
			}
		}
		return spaces, times
	}
	spaces, times := steps(c.EncoderSpace, c.EncoderTime, halvings, timeHalvings)
	back, again := steps(c.DecoderSpace, c.DecoderTime, doublings, timeDoublings)
	switch {
	case spaces != back || times != again:
		return fmt.Errorf("the encoder halves frames %d times and height and width %d times, the decoder doubles them %d and %d times",
			times, spaces, again, back)
	case 1<<times != stream.Factor:
		return fmt.Errorf("frames are halved %d times: only 2, that is %d frames to a latent frame, is supported", times, stream.Factor)
	case c.EncoderSpace[len(c.EncoderSpace)-1] != "" || c.EncoderTime[len(c.EncoderTime)-1] != "":
		return fmt.Errorf("the last entries of encoder_spatial_downsample and encoder_temporal_downsample must be empty")
	}
	return nil
}

// Downscale returns the number of pixels for one latent position in each direction: 8 in published models.
func (c *Config) Downscale() int {
	n := 1
	for _, name := range c.EncoderSpace {
		if halvings[name].space {
			n *= 2
		}
	}
	return n
}

// Latents returns the shape (C, T', h, w) of the latents of a clip. The error names the parameter that does not fit.
func (c *Config) Latents(frames, height, width int) ([]int, error) {
	d := c.Downscale()
	return stream.Latents(c.EmbedDim, frames, height, width, d, d)
}
