package dit

import (
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Options are the options of the stage that concern any network. The options of a family embed them as their first
// field; their order is that of the keys.
type Options struct {
	// SequenceParallel is auto or the number of workers on one batch, Partition how they share it: auto, uneven or
	// pad. Neither changes a value or a key.
	SequenceParallel schemas.AutoInt `yaml:"sequence_parallel" json:"-"`
	Partition        string          `yaml:"partition" json:"-"`
	// TPSize and PPSize are over how many workers the heads and columns, and the blocks, of the weights are cut.
	// They change no value and no key either; auto cuts weights that do not fit one device.
	TPSize schemas.AutoInt `yaml:"tp_size" json:"-"`
	PPSize schemas.AutoInt `yaml:"pp_size" json:"-"`
	// GuidedChannels is how many latent channels guidance touches. The family sets the default, that of its Recipe;
	// 0: all.
	GuidedChannels int `yaml:"cfg_channel" json:"cfg_channel"`
	// DType is that of weights and activations: fp32, bf16 or fp16. The family checks it, and leaves "" where it is
	// its default, so that saying so shows in no key.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// Sampler is the solver by its name, with its settings; nil: the model's own. A family replaces it by its older options
	// where they say the same, so that both have one key.
	Sampler *sampler.Choice `yaml:"sampler" json:"sampler,omitempty"`
	// Cache leaves evaluations of the network out; nil: every step is computed.
	Cache *StepCache `yaml:"cache" json:"cache,omitempty"`
	// GuidanceInterval is where guidance is computed, in fractions of the steps: step i of n from int(GuidanceInterval[0] n) on, before
	// int(GuidanceInterval[1] n). Other steps compute the prompt alone, as with a guidance_scale of 1; nil: every step is guided.
	GuidanceInterval []float64 `yaml:"guidance_interval" json:"guidance_interval,omitempty"`
	// Precision is int8 for products of numbers of 8 bits inside the blocks; "": of the type of DType.
	Precision string `yaml:"precision" json:"precision,omitempty"`
}

// StepCache is the option `cache` of the stage denoise: a rule by its name, and its settings.
type StepCache struct {
	Name string `yaml:"name" json:"name"`
	// Threshold is how large the estimated error may become before the network computes again. Of easycache it is the change of the prediction,
	// relative to the prediction; nil: 0.05, as published. Of magcache it is that of what the blocks add; nil: as published for the model.
	Threshold *float64 `yaml:"threshold" json:"threshold"`
	// Warmup is how many of the first steps easycache computes in any case; nil: 10, as published. So is the last one.
	Warmup *int `yaml:"warmup" json:"warmup,omitempty"`
	// K is how many steps after each other magcache leaves out at most; nil: as published for the model.
	K *int `yaml:"k" json:"k,omitempty"`
	// Retention is the part of the first steps that magcache computes in any case, of each of two denoisers; nil: 0.2, as published.
	Retention *float64 `yaml:"retention" json:"retention,omitempty"`
	// Ratios names the model whose published ratios magcache takes, such as wan2.1-t2v-1.3b; "": they follow from the shape of the model.
	Ratios string `yaml:"ratios" json:"ratios,omitempty"`
}

// The published settings of EasyCache for Wan 2.1, and of MagCache.
const (
	EasyCache      = "easycache"
	MagCache       = "magcache"
	easyThreshold  = 0.05
	easyWarmup     = 10
	magRetention   = 0.2
	mostCacheSteps = 1000
)

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

// check refuses what is no cache, and fills the published settings of easycache in.
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
			return stages.Errorf("cache", "cache: magcache does not go with pp_size, for it keeps what all blocks together add: leave pp_size out (tp_size and "+
				"sequence_parallel go with it), or use easycache")
		}
	default:
		return stages.Errorf("cache", "cache.name is %q: there are %s and %s", c.Name, EasyCache, MagCache)
	}
	if v := c.Threshold; v != nil && !(*v > 0 && *v < 10) {
		return stages.Errorf("cache", "cache.threshold is %g: give more than 0 and less than 10", *v)
	}
	if v := c.Warmup; v != nil && (*v < 1 || *v > mostCacheSteps) {
		return stages.Errorf("cache", "cache.warmup is %d: give 1 to %d steps", *v, mostCacheSteps)
	}
	if v := c.K; v != nil && (*v < 1 || *v > mostCacheSteps) {
		return stages.Errorf("cache", "cache.k is %d: give 1 to %d steps", *v, mostCacheSteps)
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

// checkInterval refuses what is no interval of the steps.
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

// Int8 reports whether products inside the blocks are of numbers of 8 bits. Check has refused other values.
func (o *Options) Int8() bool {
	on, _ := weights.ParsePrecision(o.Precision)
	return on
}

// Check refuses what no network with these latent channels can do; published is how many of them guidance touches
// by default.
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
