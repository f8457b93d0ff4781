package v13

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages/weights"
)

// Config describes the autoencoder. The JSON names are those of its config.json; micro_frame_size, temporal_overlap and
// normalization come from the reference's inference configurations. The defaults are the values of all published models;
// config.json may override them.
type Config struct {
	Encoder EncoderConfig `json:"encoder"`
	Decoder DecoderConfig `json:"decoder"`
	// MicroFrameSize is the number of frames in a group: 17. With TemporalOverlap a group starts with the last frame of the
	// group before, and decoding averages the two.
	MicroFrameSize  int  `json:"micro_frame_size"`
	TemporalOverlap bool `json:"temporal_overlap"`
	// Normalization is "video" (a mean and a deviation for each channel), "video_5frames" (for each channel and latent frame of
	// a group) or empty.
	Normalization string `json:"normalization"`
}

// EncoderConfig describes VideoEncoder.
type EncoderConfig struct {
	Ch           int   `json:"ch"`
	ChMult       []int `json:"ch_mult"`
	NumResBlocks int   `json:"num_res_blocks"`
	InChannels   int   `json:"in_channels"`
	ZChannels    int   `json:"z_channels"`
	DoubleZ      bool  `json:"double_z"`
	// DownSamplingLayer lists the levels that end with half the frames.
	DownSamplingLayer []int `json:"down_sampling_layer"`
}

// DecoderConfig describes VideoDecoder. Its levels have one block more than NumResBlocks.
type DecoderConfig struct {
	Ch           int   `json:"ch"`
	ChMult       []int `json:"ch_mult"`
	NumResBlocks int   `json:"num_res_blocks"`
	OutCh        int   `json:"out_ch"`
	ZChannels    int   `json:"z_channels"`
	// TemporalUpLayers lists the levels that end with twice the frames.
	TemporalUpLayers []int `json:"temporal_up_layers"`
}

// New returns the configuration that OpenSoraVAE_V1_3 builds.
func New() *Config {
	return &Config{
		Encoder: EncoderConfig{Ch: 128, ChMult: []int{1, 2, 4, 4}, NumResBlocks: 2, InChannels: 3,
			ZChannels: 16, DoubleZ: true, DownSamplingLayer: []int{1, 2}},
		Decoder: DecoderConfig{Ch: 128, ChMult: []int{1, 2, 4, 4}, NumResBlocks: 2, OutCh: 3,
			ZChannels: 16, TemporalUpLayers: []int{2, 3}},
		MicroFrameSize: 17, TemporalOverlap: true, Normalization: "video",
	}
}

// Limits of a configuration, several times larger than the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxLevels   = 8
	maxLayers   = 64
	maxGroup    = 1 << 12 // frames in a group
)

// groups is the number of groups of every GroupNorm.
const groups = 32

// Validate checks the values of config.json. Errors name the field.
func (c *Config) Validate() error {
	e, d := &c.Encoder, &c.Decoder
	if err := checkLevels("encoder", e.Ch, e.ChMult, e.NumResBlocks, e.InChannels, e.ZChannels,
		"down_sampling_layer", e.DownSamplingLayer); err != nil {
		return err
	}
	if err := checkLevels("decoder", d.Ch, d.ChMult, d.NumResBlocks, d.OutCh, d.ZChannels,
		"temporal_up_layers", d.TemporalUpLayers); err != nil {
		return err
	}
	switch {
	case !e.DoubleZ:
		return fmt.Errorf("encoder.double_z must be true")
	case e.ZChannels != d.ZChannels || e.InChannels != d.OutCh || len(e.ChMult) != len(d.ChMult) ||
		len(e.DownSamplingLayer) != len(d.TemporalUpLayers):
		return fmt.Errorf("encoder and decoder do not fit: z_channels %d and %d, in_channels %d "+
			"and out_ch %d, %d and %d levels, %d and %d of them change the number of frames", e.ZChannels, d.ZChannels, e.InChannels, d.OutCh,
			len(e.ChMult),
			len(d.ChMult), len(e.DownSamplingLayer), len(d.TemporalUpLayers))
	case c.MicroFrameSize < 1 || c.MicroFrameSize > maxGroup || c.MicroFrameSize%c.factor() != 1%c.factor():
		return fmt.Errorf("micro_frame_size is %d, must be one more than a multiple of %d, "+
			"at most %d", c.MicroFrameSize, c.factor(), maxGroup)
	case c.TemporalOverlap && c.MicroFrameSize < 2:
		return fmt.Errorf("temporal_overlap needs a micro_frame_size of 2 or more, it is %d",
			c.MicroFrameSize)
	case c.Normalization != "" && c.Normalization != normVideo && c.Normalization != norm5Frames:
		return fmt.Errorf("normalization is %q: there are %q, %q and \"\"", c.Normalization, normVideo,
			norm5Frames)
	case c.Normalization != "" && e.ZChannels != len(videoMean):
		return fmt.Errorf("z_channels is %d, normalization %q is for %d", e.ZChannels, c.Normalization,
			len(videoMean))
	case c.Normalization == norm5Frames && c.GroupLatents(c.MicroFrameSize) != len(groupMean[0]):
		return fmt.Errorf("micro_frame_size is %d, normalization %q is for groups of %d latent frames",
			c.MicroFrameSize, norm5Frames, len(groupMean[0]))
	}
	return nil
}

func checkLevels(part string, ch int, mult []int, blocks, pixels, z int, field string, levels []int) error {
	if err := cmp.Or(
		weights.Within("ch", ch, maxChannels), weights.Within("num_res_blocks", blocks, maxLayers),
		weights.Within("channels of pixels", pixels, maxChannels), weights.Within("z_channels", z, maxChannels),
		weights.Within("length of ch_mult", len(mult), maxLevels),
	); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	for i, m := range mult {
		if m < 1 || m > maxChannels || m*ch > maxChannels || m*ch%groups != 0 {
			return fmt.Errorf("%s.ch_mult[%d] is %d and ch is %d: the product must be at most %d and "+
				"divisible by %d", part, i, m, ch, maxChannels, groups)
		}
	}
	for i, level := range levels {
		if level < 0 || level >= len(mult) || i > 0 && level <= levels[i-1] {
			return fmt.Errorf("%s.%s is %v, must be ascending numbers from 0 to %d", part, field, levels, len(mult)-1)
		}
	}
	return nil
}

// factor returns how many frames become one latent frame: 4. The first frame becomes one latent frame alone.
func (c *Config) factor() int { return 1 << len(c.Encoder.DownSamplingLayer) }

// Stride returns the distance in frames between the starts of adjacent groups.
func (c *Config) Stride() int {
	if c.TemporalOverlap {
		return c.MicroFrameSize - 1
	}
	return c.MicroFrameSize
}

// GroupLatents returns the latent frames of a group of n frames.
func (c *Config) GroupLatents(n int) int { return (n-1)/c.factor() + 1 }

// Downscale returns the number of pixels for one latent position in each direction: 8 in published models.
func (c *Config) Downscale() int { return 1 << (len(c.Decoder.ChMult) - 1) }

// Latents returns the shape (C, T', h, w) of the latents of a clip. A single image becomes one latent frame; a video must
// consist of whole groups.
func (c *Config) Latents(frames, height, width int) ([]int, error) {
	overlap := c.MicroFrameSize - c.Stride()
	groups := (frames - overlap) / c.Stride()
	if frames != 1 && (groups < 1 || groups*c.Stride()+overlap != frames) {
		return nil, fmt.Errorf("num_frames is %d: this autoencoder takes 1 frame, or %d and any multiple of %d "+
			"more, such as %d", frames, c.MicroFrameSize, c.Stride(), schemas.NearestFrames(frames, c.Stride(), c.MicroFrameSize))
	}
	t := groups * c.GroupLatents(c.MicroFrameSize)
	if frames == 1 {
		t = 1
	}
	d := c.Downscale()
	h, w := (height+d-1)/d, (width+d-1)/d
	// For 1 pixel more than a multiple of 8 the reference's encoder rounds down, but its denoiser rounds up.
	if n := height; c.side(n) != h {
		return nil, fmt.Errorf("height is %d: give a multiple of %d, such as %d", n, d, n/d*d)
	}
	if n := width; c.side(n) != w {
		return nil, fmt.Errorf("width is %d: give a multiple of %d, such as %d", n, d, n/d*d)
	}
	return []int{c.Encoder.ZChannels, t, h, w}, nil
}

// side returns the number of latent positions for n pixels. Levels that halve the frames round up, others round down.
func (c *Config) side(n int) int {
	for level := range len(c.Encoder.ChMult) - 1 {
		if c.halves(level) {
			n++
		}
		n /= 2
	}
	return n
}

func (c *Config) halves(level int) bool {
	return slices.Contains(c.Encoder.DownSamplingLayer, level)
}
