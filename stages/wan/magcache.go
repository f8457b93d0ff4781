package wan

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
)

// magRatios are the ratios and settings that the authors of MagCache published for Wan 2.1 and 2.2, by the name of the model
// (github.com/Zehong-Ma/MagCache, magcache_generate.py of MagCache4Wan2.1 and 2.2, and the commands of their README). Names
// that end in " image" are for rows of TI2V-5B with an image.
//
//go:embed magcache.json
var magRatios []byte

// withImage is the suffix of names for rows with an image.
const withImage = " image"

// readRatios reads magRatios.
func readRatios() map[string]dit.MagRatios {
	var all map[string]dit.MagRatios
	if err := json.Unmarshal(magRatios, &all); err != nil {
		panic(err) // the file is embedded and tested
	}
	return all
}

// shapesOf returns the names of the published models that a configuration may be.
func shapesOf(c *Config, two bool) []string {
	switch beside := c.extraChannels() > 0; {
	case c.OutChannels == 48 && c.Layers == 30 && c.Hidden() == 3072:
		return []string{"wan2.2-ti2v-5b"}
	case c.OutChannels == 16 && c.Layers == 30 && c.Hidden() == 1536 && !beside && !two:
		return []string{"wan2.1-t2v-1.3b"}
	case c.OutChannels != 16 || c.Layers != 40 || c.Hidden() != 5120:
		return nil
	case beside && two:
		return []string{"wan2.2-i2v-a14b"}
	case beside:
		return []string{"wan2.1-i2v-14b-480p", "wan2.1-i2v-14b-720p"}
	case two:
		return []string{"wan2.2-t2v-a14b"}
	}
	return []string{"wan2.1-t2v-14b"}
}

// magnitudes fills in the ratios and settings of the option cache for a model, and returns Description.Magnitudes; nil if the
// option is not magcache.
func magnitudes(cfg *Config, two bool, o *dit.StepCache) (func(image bool) *dit.MagRatios, error) {
	if o == nil || o.Name != dit.MagCache {
		return nil, nil
	}
	all := readRatios()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return strings.HasSuffix(name, withImage) })
	if o.Ratios == "" {
		switch fit := shapesOf(cfg, two); len(fit) {
		case 0:
			return nil, stages.Errorf("cache", "cache: the authors of MagCache measured no ratios of a model of this shape (%d layers of width %d): give `ratios` "+
				"with the model that it was made from (%s), or use easycache, which needs none", cfg.Layers, cfg.Hidden(), strings.Join(names, ", "))
		case 1:
			o.Ratios = fit[0]
		default:
			return nil, stages.Errorf("cache", "cache: the weights fit several models: give cache the key `ratios` with %s",
				strings.Join(fit, " or "))
		}
	}
	text, known := all[o.Ratios]
	if !known || strings.HasSuffix(o.Ratios, withImage) {
		return nil, stages.Errorf("cache", "cache.ratios is %q: there are %s", o.Ratios, strings.Join(names, ", "))
	}
	image, apart := all[o.Ratios+withImage]
	if !apart {
		image = text
	}
	text.FirstWhole = two && cfg.extraChannels() > 0
	image.FirstWhole = text.FirstWhole
	o.Publish(text)
	return func(given bool) *dit.MagRatios {
		if given {
			return &image
		}
		return &text
	}, nil
}
