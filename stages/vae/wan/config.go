package wan

import (
	"cmp"
	"fmt"
	"math"

	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// Config describes an autoencoder; the names are those of diffusers' config.json.
type Config struct {
	BaseDim        int       `json:"base_dim"`
	DecoderBaseDim *int      `json:"decoder_base_dim"` // null: base_dim
	ZDim           int       `json:"z_dim"`
	DimMult        []int     `json:"dim_mult"`
	NumResBlocks   int       `json:"num_res_blocks"`
	AttnScales     []float64 `json:"attn_scales"`
	// TemporalDownsample says which halvings of height and width also halve the frames. The key has the published spelling.
	TemporalDownsample []bool `json:"temperal_downsample"`
	// LatentsMean and LatentsStd have a value for each channel of the autoencoder's own latents.
	LatentsMean []float64 `json:"latents_mean"`
	LatentsStd  []float64 `json:"latents_std"`
	IsResidual  bool      `json:"is_residual"` // Wan 2.2: levels have shortcuts
	InChannels  int       `json:"in_channels"`
	OutChannels int       `json:"out_channels"`
	PatchSize   *int      `json:"patch_size"` // null: 1
}

// Limits of a configuration, several times larger than the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxLevels   = 8
	maxLayers   = 64
	maxPatch    = 8
)

// New returns diffusers' defaults for missing keys of config.json: the autoencoder of Wan 2.1.
func New() *Config {
	return &Config{
		BaseDim: 96, ZDim: 16, DimMult: []int{1, 2, 4, 4}, NumResBlocks: 2,
		TemporalDownsample: []bool{false, true, true}, InChannels: 3, OutChannels: 3,
		LatentsMean: []float64{-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715,
			0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921},
		LatentsStd: []float64{2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652,
			1.5579, 1.6382, 1.1253, 2.8251, 1.9160},
	}
}

// NewTI2V5B returns the configuration of the autoencoder of Wan 2.2's TI2V-5B.
func NewTI2V5B() *Config {
	c, decoder, patch := New(), 256, 2
	c.BaseDim, c.DecoderBaseDim, c.ZDim, c.IsResidual, c.PatchSize = 160, &decoder, 48, true, &patch
	c.InChannels, c.OutChannels = 3*patch*patch, 3*patch*patch
	c.LatentsMean = []float64{
		-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813, 0.0891, 0.157,
		-0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502, -0.2055,
		-0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.123, -0.0313, -0.1649, 0.0117, 0.0723, -0.2839,
		-0.2083, -0.052, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667,
	}
	c.LatentsStd = []float64{
		0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.499, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901, 0.6885,
		0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659, 0.7069, 0.5338,
		0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458,
		1.6887, 0.3971, 1.06, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744,
	}
	return c
}

// Validate checks the values of config.json. Errors name the field.
func (c *Config) Validate() error {
	if n := len(c.DimMult); n < 2 || n > maxLevels {
		return fmt.Errorf("dim_mult has %d entries, must be 2 to %d", n, maxLevels)
	}
	if err := cmp.Or(
		weights.Within("base_dim", c.BaseDim, maxChannels),
		weights.Within("decoder_base_dim", c.decoderDim(), maxChannels), weights.Within("z_dim", c.ZDim, maxChannels),
		weights.Within("num_res_blocks", c.NumResBlocks, maxLayers), weights.Within("patch_size", c.patch(), maxPatch),
	); err != nil {
		return err
	}
	for i, m := range c.DimMult {
		if m < 1 || m*max(c.BaseDim, c.decoderDim()) > maxChannels {
			return fmt.Errorf("dim_mult[%d] is %d, must be 1 or more and at most %d channels", i, m, maxChannels)
		}
	}
	halved := 0
	for _, yes := range c.TemporalDownsample {
		if yes {
			halved++
		}
	}
	pixels := 3 * c.patch() * c.patch()
	switch {
	case len(c.TemporalDownsample) != len(c.DimMult)-1 || 1<<halved != stream.Factor:
		return fmt.Errorf("temperal_downsample is %v: give %d entries for dim_mult %v, two of them true",
			c.TemporalDownsample, len(c.DimMult)-1, c.DimMult)
	case len(c.AttnScales) > 0:
		return fmt.Errorf("attn_scales is %v, only [] is supported", c.AttnScales)
	case c.InChannels != pixels || c.OutChannels != pixels:
		return fmt.Errorf("in_channels and out_channels are %d and %d, patch_size %d makes them %d", c.InChannels,
			c.OutChannels, c.patch(), pixels)
	}
	if err := c.checkStatistics(); err != nil {
		return err
	}
	return c.checkShortcuts()
}

func (c *Config) checkStatistics() error {
	if len(c.LatentsMean) != c.ZDim || len(c.LatentsStd) != c.ZDim {
		return fmt.Errorf("latents_mean and latents_std have %d and %d entries, z_dim is %d", len(c.LatentsMean),
			len(c.LatentsStd), c.ZDim)
	}
	for i, std := range c.LatentsStd {
		if !(std > 0) || math.IsInf(std, 1) {
			return fmt.Errorf("latents_std[%d] is %g, must be positive", i, std)
		}
	}
	return nil
}

// checkShortcuts returns an error for widths whose shortcuts would average or repeat channels of several kinds of places.
func (c *Config) checkShortcuts() error {
	down, up := c.downLevels(), c.upLevels()
	if !c.IsResidual {
		for _, l := range up {
			if l.space && l.out < 2 {
				return fmt.Errorf("base_dim %d is too small: the decoder halves its channels", c.decoderDim())
			}
		}
		return nil
	}
	for i := range down {
		if n, m := down[i].in*down[i].places(), down[i].out; n%m != 0 || !fits(down[i].places(), n/m) {
			return fmt.Errorf("dim_mult %v: a shortcut of the encoder cannot make %d channels of %d", c.DimMult, m, down[i].in)
		}
		if n, m := up[i].out*up[i].places(), up[i].in; up[i].space && (n%m != 0 || !fits(up[i].places(), n/m)) {
			return fmt.Errorf("dim_mult %v: a shortcut of the decoder cannot make %d channels of %d", c.DimMult, up[i].out, m)
		}
	}
	return nil
}

// fits reports whether one number divides the other.
func fits(places, group int) bool { return places%group == 0 || group%places == 0 }

// level is one level of the encoder or the decoder.
type level struct {
	in, out     int  // channels
	space, time bool // what is halved or doubled after it
}

// places returns how many values of a channel are averaged to one, or copied from one.
func (l level) places() int {
	switch {
	case l.time:
		return 8
	case l.space:
		return 4
	}
	return 1
}

func (c *Config) downLevels() (out []level) {
	in := c.BaseDim
	last := len(c.DimMult) - 1
	for i, m := range c.DimMult {
		out = append(out, level{in, m * c.BaseDim, i < last, i < last && c.TemporalDownsample[i]})
		in = m * c.BaseDim
	}
	return out
}

func (c *Config) upLevels() (out []level) {
	last := len(c.DimMult) - 1
	in := c.DimMult[last] * c.decoderDim()
	for i := range c.DimMult {
		l := level{in, c.DimMult[last-i] * c.decoderDim(), i < last, i < last && c.TemporalDownsample[last-1-i]}
		out = append(out, l)
		if in = l.out; !c.IsResidual {
			in = l.out / 2 // the convolution that doubles the size halves the channels
		}
	}
	return out
}

func (c *Config) decoderDim() int {
	if c.DecoderBaseDim == nil {
		return c.BaseDim
	}
	return *c.DecoderBaseDim
}

func (c *Config) patch() int {
	if c.PatchSize == nil {
		return 1
	}
	return *c.PatchSize
}

// Downscale returns the number of pixels for one latent position in each direction: 8, or 16 with patches.
func (c *Config) Downscale() int { return c.patch() << (len(c.DimMult) - 1) }

// Latents returns the shape (C, T', h, w) of the latents of a clip. The error names the parameter that does not fit.
func (c *Config) Latents(frames, height, width int) ([]int, error) {
	d, p := c.Downscale(), c.patch()
	if c.IsResidual {
		p = d // the means of its shortcuts cannot be rounded
	}
	return stream.Latents(c.ZDim, frames, height, width, d, p)
}
