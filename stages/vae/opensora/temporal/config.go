package temporal

import (
	"cmp"
	"fmt"

	"latentbeam/stages/weights"
)

// Limits of a configuration, several times larger than the largest published autoencoder.
const (
	maxChannels = 1 << 14
	maxBlocks   = 8
	maxLayers   = 64
)

// Config describes VAE_Temporal, the part of Open-Sora 1.2's autoencoder that reduces the frames. The names come from the
// reference's constructor.
type Config struct {
	Type               string `json:"type"`
	InOutChannels      int    `json:"in_out_channels"`
	LatentEmbedDim     int    `json:"latent_embed_dim"`
	EmbedDim           int    `json:"embed_dim"`
	Filters            int    `json:"filters"`
	NumResBlocks       int    `json:"num_res_blocks"`
	ChannelMultipliers []int  `json:"channel_multipliers"`
	// TemporalDownsample says for every level but the last whether it ends with half the frames.
	TemporalDownsample []bool `json:"temporal_downsample"`
	NumGroups          int    `json:"num_groups"`
}

// New returns VAE_Temporal_SD, the configuration of all published weights.
func New() Config {
	return Config{Type: "VAE_Temporal_SD", InOutChannels: 4, LatentEmbedDim: 4, EmbedDim: 4,
		Filters: 128, NumResBlocks: 4, ChannelMultipliers: []int{1, 2, 2, 4},
		TemporalDownsample: []bool{false, true, true},
		NumGroups:          32}
}

// Factor returns how many frames become one latent frame: 4 in published models.
func (c *Config) Factor() int {
	f := 1
	for _, half := range c.TemporalDownsample {
		if half {
			f *= 2
		}
	}
	return f
}

// Front returns the number of zero frames before n frames that make the total a multiple of Factor.
func (c *Config) Front(n int) int { return (c.Factor() - n%c.Factor()) % c.Factor() }

// Validate checks the values of config.json. Errors name the field.
func (c *Config) Validate() error {
	if c.Type != "VAE_Temporal_SD" && c.Type != "VAE_Temporal" {
		return fmt.Errorf("vae_temporal.type is %q, only VAE_Temporal_SD and VAE_Temporal are "+
			"supported", c.Type)
	}
	levels := len(c.ChannelMultipliers)
	if levels < 1 || levels > maxBlocks || len(c.TemporalDownsample) < levels-1 {
		return fmt.Errorf("vae_temporal has %d channel_multipliers and %d temporal_downsample, "+
			"must be 1 to %d and one less", levels, len(c.TemporalDownsample), maxBlocks)
	}
	if err := cmp.Or(
		weights.Within("vae_temporal.in_out_channels", c.InOutChannels, maxChannels),
		weights.Within("vae_temporal.latent_embed_dim", c.LatentEmbedDim, maxChannels),
		weights.Within("vae_temporal.embed_dim", c.EmbedDim, maxChannels),
		weights.Within("vae_temporal.filters", c.Filters, maxChannels),
		weights.Within("vae_temporal.num_res_blocks", c.NumResBlocks, maxLayers),
		weights.Within("vae_temporal.num_groups", c.NumGroups, maxChannels),
	); err != nil {
		return err
	}
	for i, n := range c.ChannelMultipliers {
		if n < 1 || n > maxChannels || n*c.Filters > maxChannels || n*c.Filters%c.NumGroups != 0 {
			return fmt.Errorf("vae_temporal.channel_multipliers[%d] is %d, times filters it must "+
				"be at most %d and divisible by num_groups %d", i, n, maxChannels, c.NumGroups)
		}
	}
	c.TemporalDownsample = c.TemporalDownsample[:levels-1]
	return nil
}
