package dit

import (
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Options are the options of the stage that concern any network. The options of a family embed them as the first field, because
// their order is the order in the keys.
type Options struct {
	// SequenceParallel is auto or the number of workers on one batch. Partition says how they share it: auto, uneven or pad.
	// Neither changes a value or a key.
	SequenceParallel schemas.AutoInt `yaml:"sequence_parallel" json:"-"`
	Partition        string          `yaml:"partition" json:"-"`
	// TPSize and PPSize are the numbers of workers that the weights are split over: TPSize splits heads and columns, PPSize
	// splits blocks. They change no value and no key; auto splits weights that do not fit one device.
	TPSize schemas.AutoInt `yaml:"tp_size" json:"-"`
	PPSize schemas.AutoInt `yaml:"pp_size" json:"-"`
	// GuidedChannels is the number of latent channels that guidance changes; 0: all. The family sets the default from its
	// Recipe.
	GuidedChannels int `yaml:"cfg_channel" json:"cfg_channel"`
	// DType is the type of weights and activations: fp32, bf16 or fp16. The family checks it and sets it to "" if it is the
	// family's default, so that writing the default does not change keys.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// Sampler is the chosen solver with its settings; nil: the model's own. If older options of a family say the same, the
	// family uses these instead, so that both have one key.
	Sampler *sampler.Choice `yaml:"sampler" json:"sampler,omitempty"`
	// Cache skips evaluations of the network; nil: every step is computed.
	Cache *StepCache `yaml:"cache" json:"cache,omitempty"`
	// GuidanceInterval is the range of guided steps as fractions: of n steps, step i is guided if int(GuidanceInterval[0] n) <=
	// i < int(GuidanceInterval[1] n). Other steps compute only the prompt, as with guidance_scale 1. Nil: every step is guided.
	GuidanceInterval []float64 `yaml:"guidance_interval" json:"guidance_interval,omitempty"`
	// Precision is int8 for 8-bit products inside the blocks; "": products have the type DType.
	Precision string `yaml:"precision" json:"precision,omitempty"`
}

// StepCache is the option `cache` of the stage denoise: the name of a rule, and its settings.
type StepCache struct {
	Name string `yaml:"name" json:"name"`
	// Threshold is how large the estimated error may become before the network computes again. For easycache it is the relative
	// change of the prediction; nil: 0.05, as published. For magcache it is the change of what the blocks add; nil: as
	// published for the model.
	Threshold *float64 `yaml:"threshold" json:"threshold"`
	// Warmup is how many first steps easycache always computes; nil: 10, as published. It always computes the last step too.
	Warmup *int `yaml:"warmup" json:"warmup,omitempty"`
	// K is the largest number of steps in a row that magcache skips; nil: as published for the model.
	K *int `yaml:"k" json:"k,omitempty"`
	// Retention is the part of the first steps of each denoiser that magcache always computes; nil: 0.2, as published.
	Retention *float64 `yaml:"retention" json:"retention,omitempty"`
	// Ratios names the model whose published ratios magcache uses, such as wan2.1-t2v-1.3b; "": chosen by the shape of the
	// model.
	Ratios string `yaml:"ratios" json:"ratios,omitempty"`
}

// The published settings of EasyCache for Wan 2.1, and of MagCache.
const (
	EasyCache     = "easycache"
	MagCache      = "magcache"
	easyThreshold = 0.05
	easyWarmup    = 10
	magRetention  = 0.2
	maxCacheSteps = 1000
)

// Approximations lists the options that approximate. The loss of each is that of the worst setting in the tables of its page.
func Approximations() []stages.Approximation {
	return []stages.Approximation{
		{Option: "cache.name", Value: EasyCache, With: "threshold: 1, warmup: 3", Kept: 86, Of: 92, Page: "wan.md#step-caches"},
		{Option: "cache.name", Value: MagCache, Why: "there are no ratios of it", Page: "wan.md#step-caches"},
		{Option: "guidance_interval", With: "[0, 0.8]", Kept: 91, Of: 92, Page: "wan.md#guidance-in-a-part-of-the-steps"},
		weights.Int8Loss,
	}
}

// Publish fills in the published settings of magcache for a model.
func (c *StepCache) Publish(r MagRatios) {
	if c.Threshold == nil {
		c.Threshold = &r.Threshold
	}
	if c.K == nil {
		c.K = &r.K
	}
	if c.Retention == nil {
		v := magRetention
		c.Retention = &v
	}
}

// check returns an error for an invalid cache, and fills in the published settings of easycache.
func (c *StepCache) check(o *Options) error {
	switch c.Name {
	case EasyCache:
		if c.K != nil || c.Retention != nil || c.Ratios != "" {
			return stages.Errorf("cache", "cache: k, retention and ratios belong to %s, easycache has threshold and warmup", MagCache)
		}
		if c.Threshold == nil {
			v := easyThreshold
			c.Threshold = &v
		}
		if c.Warmup == nil {
			v := easyWarmup
			c.Warmup = &v
		}
	case MagCache:
		if c.Warmup != nil {
			return stages.Errorf("cache", "cache: warmup belongs to %s, magcache has threshold, k, retention and ratios", EasyCache)
		}
		if o.PPSize > 1 {
			return stages.Errorf("cache", "cache: magcache cannot be used with pp_size, because it stores what all blocks together add: leave pp_size out "+
				"(tp_size and sequence_parallel are possible), or use easycache")
		}
	default:
		return stages.Errorf("cache", "cache.name is %q: there are %s and %s", c.Name, EasyCache, MagCache)
	}
	if v := c.Threshold; v != nil && !(*v > 0 && *v < 10) {
		return stages.Errorf("cache", "cache.threshold is %g: give more than 0 and less than 10", *v)
	}
	if v := c.Warmup; v != nil && (*v < 1 || *v > maxCacheSteps) {
		return stages.Errorf("cache", "cache.warmup is %d: give 1 to %d steps", *v, maxCacheSteps)
	}
	if v := c.K; v != nil && (*v < 1 || *v > maxCacheSteps) {
		return stages.Errorf("cache", "cache.k is %d: give 1 to %d steps", *v, maxCacheSteps)
	}
	if v := c.Retention; v != nil && !(*v >= 0 && *v <= 1) {
		return stages.Errorf("cache", "cache.retention is %g: give 0 to 1, a part of the steps", *v)
	}
	return nil
}

// UsesEasyCache reports whether the cache is easycache.
func (o *Options) UsesEasyCache() bool { return o.Cache != nil && o.Cache.Name == EasyCache }

// UsesMagCache reports whether the cache is magcache.
func (o *Options) UsesMagCache() bool { return o.Cache != nil && o.Cache.Name == MagCache }

// checkInterval returns an error for an invalid guidance_interval.
func (o *Options) checkInterval() error {
	i := o.GuidanceInterval
	switch {
	case i == nil:
		return nil
	case len(i) != 2 || !(0 <= i[0] && i[0] < i[1] && i[1] <= 1):
		return stages.Errorf("guidance_interval", "guidance_interval is %v: give two fractions of the steps, such as [0.1, 0.8], from 0 to 1, the lower one "+
			"first", i)
	}
	return nil
}

// Int8 reports whether products inside the blocks use 8-bit numbers. Check refuses other values.
func (o *Options) Int8() bool {
	on, _ := weights.ParsePrecision(o.Precision)
	return on
}

// Check returns an error for options that no network with these latent channels supports. published is the family's default for
// GuidedChannels.
func (o *Options) Check(name string, channels, published int) error {
	if _, err := sequence.ParsePartition(o.Partition); err != nil && o.Partition != "" && o.Partition != "auto" {
		return stages.Errorf("partition", "partition is %q: give auto, uneven or pad", o.Partition)
	}
	if _, err := weights.ParsePrecision(o.Precision); err != nil {
		return err
	}
	if o.Cache != nil {
		if err := o.Cache.check(o); err != nil {
			return err
		}
	}
	if err := o.checkInterval(); err != nil {
		return err
	}
	if published == 0 && o.GuidedChannels != 0 {
		return stages.Errorf("cfg_channel",
			"cfg_channel is %d: %s guides all channels, leave it out", o.GuidedChannels, name)
	}
	if published != 0 && (o.GuidedChannels < 1 || o.GuidedChannels > channels) {
		return stages.Errorf("cfg_channel",
			"cfg_channel is %d: give 1 to %d, the latent channels", o.GuidedChannels, channels)
	}
	return nil
}
