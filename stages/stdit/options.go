package stdit

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/condition"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
)

// options are the options of the stage for a network of this family.
type options struct {
	dit.Options
	// Version is the version of Open-Sora that the job was written for, such as 1.2; presets set it. Models of another version
	// are refused. "" accepts any.
	Version string `yaml:"version" json:"-"`
	// FrameInterval says that only every n-th frame of the video is made. Versions from 1.1 on are then conditioned on fps *
	// frame_interval. Default 1.
	FrameInterval int `yaml:"frame_interval" json:"frame_interval,omitempty"`
	// SpaceScale and TimeScale divide the positions of 1.0. The defaults come from the model's config.json. The published
	// configurations of 1.0 set them by the size of the video, independent of the size that the weights were trained on.
	SpaceScale float64 `yaml:"space_scale" json:"space_scale,omitempty"`
	TimeScale  float64 `yaml:"time_scale" json:"time_scale,omitempty"`
	// CondType, ImageScale and SDEdit are for conditioning on images in 1.3; see imageOptions.
	CondType   string  `yaml:"cond_type" json:"cond_type,omitempty"`
	ImageScale float64 `yaml:"image_cfg_scale" json:"image_cfg_scale,omitempty"`
	SDEdit     *bool   `yaml:"use_sdedit" json:"use_sdedit,omitempty"`
}

// check returns an error for options that the model does not support, and sets its dtype. It clears options with the default
// value, so that writing the default does not change keys.
func (o *options) check(cfg *Config, recipe sampler.Recipe) error {
	if o.Version != "" && o.Version != cfg.Version.String() {
		return stages.Errorf("version",
			"version is %q, but the model is of Open-Sora %s: give the job that model, or the preset of "+
				"this one (opensora-v%s-...)", o.Version, cfg.Version, cfg.Version)
	}
	if err := o.setDType(cfg); err != nil {
		return err
	}
	if err := o.setScales(cfg); err != nil {
		return err
	}
	if err := o.Options.Check(cfg.Version.title(), cfg.InChannels, recipe.GuidedChannels); err != nil {
		return err
	}
	cfg.Int8 = o.Int8()
	if o.FrameInterval == 1 {
		o.FrameInterval = 0
	}
	if o.FrameInterval < 0 || o.FrameInterval > 0 && cfg.Version == OpenSora10 {
		return stages.Errorf("frame_interval",
			"frame_interval is %d: give a positive number, and only from Open-Sora 1.1 on, "+
				"which takes the frame rate as an input", o.FrameInterval)
	}
	return nil
}

// choose returns the recipe for the option sampler. A version has one solver; writing its name does not change keys.
func (o *options) choose(cfg Config, published sampler.Recipe) (sampler.Recipe, error) {
	c := o.Sampler
	if c == nil {
		return published, nil
	}
	own := sampler.SolverOpenSora(cfg.Version.String())
	err := c.Only(cfg.Version.title())
	if err == nil && c.Name != "" && c.Name != own {
		err = fmt.Errorf("sampler has the name %q: %s has %s alone", c.Name, cfg.Version.title(), own)
	}
	if err != nil {
		return published, &stages.OptionError{Key: "sampler", Err: err}
	}
	o.Sampler = nil
	return published, nil
}

// setDType sets the requested type. The default is bf16, for which the versions from 1.1 on were published. 1.0 was published
// for fp16, which processors do not support; its default is fp32, and fp16 is a rounding of it.
func (o *options) setDType(cfg *Config) error {
	fallback := map[bool]string{true: "fp32", false: "bf16"}[cfg.Version == OpenSora10]
	if o.DType == fallback {
		o.DType = ""
	}
	name := cmp.Or(o.DType, fallback)
	dt, ok := map[string]kernels.DType{"fp32": kernels.F32, "bf16": kernels.BF16, "fp16": kernels.F16}[name]
	switch {
	case !ok:
		return stages.Errorf("dtype", "dtype is %q: give fp32, bf16, or with Open-Sora 1.0 fp16", o.DType)
	case dt == kernels.F16 && cfg.Version != OpenSora10:
		return stages.Errorf("dtype", "dtype is fp16: Open-Sora %s was published for bf16, give that or fp32", cfg.Version)
	}
	cfg.DType = dt
	return nil
}

// setScales copies the given scales to the configuration.
func (o *options) setScales(cfg *Config) error {
	for _, s := range []struct {
		name      string
		given, of *float64
	}{{"space_scale", &o.SpaceScale, &cfg.SpaceScale}, {"time_scale", &o.TimeScale, &cfg.TimeScale}} {
		switch given := *s.given; {
		case given == 0:
		case cfg.Version != OpenSora10:
			return stages.Errorf(s.name, "%s is %g: only Open-Sora 1.0 has it, leave it out", s.name, given)
		case !(given > 0 && given <= maxScale):
			return stages.Errorf(s.name, "%s is %g: give a number above 0, at most %d", s.name, given, maxScale)
		case given == *s.of: // the default is not part of the key
			*s.given = 0
		default:
			*s.of = given
		}
	}
	return nil
}

// maxScale limits the scales of positions. The published values are 1/2, 2/3 and 1.
const maxScale = 1 << 10

// imageOptions are the options for conditioning on images.
type imageOptions struct {
	// CondType says which frames of the references are given; "": the rows' mask strategies decide.
	CondType string
	// Scale is the guidance scale of the given frames.
	Scale float64
	// SDEdit starts every step from the given frames with the step's noise.
	SDEdit *bool
}

// fill checks the options and sets defaults from the published configuration (v2v.py).
func (o *imageOptions) fill(v Version) error {
	known := condition.ImageTypes()
	switch {
	case o.CondType == "" && (o.Scale != 0 || o.SDEdit != nil):
		return fmt.Errorf("image_cfg_scale and use_sdedit are of no use without cond_type: give one of %v", known)
	case o.CondType == "":
		return nil
	case v != OpenSora13:
		return stages.Errorf("cond_type", "cond_type is %q: only Open-Sora 1.3 takes images by inputs of their own; "+
			"give rows a mask_strategy", o.CondType)
	case !slices.Contains(known, o.CondType):
		return stages.Errorf("cond_type", "cond_type is %q: give one of %v", o.CondType, known)
	case !(o.Scale >= 0 && o.Scale <= schemas.MaxGuidanceScale):
		return stages.Errorf("image_cfg_scale", "image_cfg_scale is %g: give 0 to %d", o.Scale, schemas.MaxGuidanceScale)
	}
	if o.Scale == 0 {
		o.Scale = 5
	}
	if o.SDEdit == nil {
		yes := true
		o.SDEdit = &yes
	}
	return nil
}

// images says how the stage passes given frames to the network; nil: by mask strategies.
func (o imageOptions) images() *dit.Images {
	if o.CondType == "" {
		return nil
	}
	return &dit.Images{CondType: o.CondType, Guide: sampler.Image{Scale: float32(o.Scale), Ramp: true,
		Oscillate: true, Renoise: *o.SDEdit}}
}
