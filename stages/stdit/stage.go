package stdit

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
	"latentbeam/stages/sequence"
)

// latentScale is the factor between the latents of the 2D autoencoder and the denoiser's, in Open-Sora 1.0 and
// 1.1. The autoencoders of later versions scale their latents themselves.
const latentScale = 0.18215

// options is the stage's map in the YAML.
type options struct {
	// SequenceParallel is auto or the number of workers on one batch, Partition how they share it: auto, uneven or
	// pad. Neither changes a value or a key.
	SequenceParallel config.AutoInt `yaml:"sequence_parallel" json:"-"`
	Partition        string         `yaml:"partition" json:"-"`
	// TPSize and PPSize are over how many workers the heads and columns, and the blocks, of the weights are cut.
	// They change no value and no key either; auto cuts weights that do not fit one device.
	TPSize config.AutoInt `yaml:"tp_size" json:"-"`
	PPSize config.AutoInt `yaml:"pp_size" json:"-"`
	// Version is that of Open-Sora that the job was written for, such as 1.2, as presets say it; a model of another
	// one is refused. "" takes any.
	Version string `yaml:"version" json:"-"`
	// GuidedChannels is how many latent channels guidance touches; default 3 in 1.0 and 1.1, as the reference.
	GuidedChannels int `yaml:"cfg_channel" json:"cfg_channel"`
	// DType is that of weights and activations: fp32, bf16, or with 1.0 fp16. Default bf16, with 1.0 fp32.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// FrameInterval tells the versions from 1.1 on that every n-th frame of the video is made: they are
	// conditioned on fps * frame_interval. Default 1.
	FrameInterval int `yaml:"frame_interval" json:"frame_interval,omitempty"`
	// SpaceScale and TimeScale divide the positions of 1.0; default those of the model's config.json. Its published
	// configurations set them by the size of the video, whatever the weights were trained on.
	SpaceScale float64 `yaml:"space_scale" json:"space_scale,omitempty"`
	TimeScale  float64 `yaml:"time_scale" json:"time_scale,omitempty"`
	// CondType, ImageScale and SDEdit are those of conditioning on images in 1.3; see imageOptions.
	CondType   string  `yaml:"cond_type" json:"cond_type,omitempty"`
	ImageScale float64 `yaml:"image_cfg_scale" json:"image_cfg_scale,omitempty"`
	SDEdit     *bool   `yaml:"use_sdedit" json:"use_sdedit,omitempty"`
}

// Spec returns the stage `denoise`: a denoiser of the STDiT family under its sampler turns noise into latents
// that follow the text.
//
// again opens what takes the clips of longer videos through the model's autoencoder.
func Spec(again stages.OpenReencoder) stages.Spec {
	return stages.Spec{
		Name: "denoise",
		Doc: "STDiT (Open-Sora 1.0 to 1.3): text to latents; dtype, cfg_channel, frame_interval, version, cond_type, " +
			"image_cfg_scale, use_sdedit, sequence_parallel, partition, tp_size, pp_size",
		In:      stages.KindText,
		Out:     stages.KindLatents,
		Version: 1,
		Params: []stages.Param{stages.ParamSeed, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames,
			stages.ParamSteps, stages.ParamGuidanceScale},
		New: func(m *stages.Model, o stages.Options) (stages.Stage, error) { return open(m, o, again) },
	}
}

func open(m *stages.Model, o stages.Options, again stages.OpenReencoder) (stages.Stage, error) {
	model, err := nn.OpenComponent(m, "transformer", ParseConfig, Load)
	if err != nil {
		return nil, err
	}
	cfg := &model.Config
	recipe, err := sampler.OpenSora(cfg.Version.String())
	if err != nil {
		return nil, err
	}
	opts := options{GuidedChannels: recipe.GuidedChannels}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if err := opts.check(cfg, recipe); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	images := imageOptions{opts.CondType, opts.ImageScale, opts.SDEdit}
	if err := images.fill(cfg.Version); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	opts.ImageScale, opts.SDEdit = images.Scale, images.SDEdit
	sharded, err := model.Over(int(opts.TPSize), int(opts.PPSize), cfg.NumHeads, cfg.Depth)
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	recipe.GuidedChannels = opts.GuidedChannels
	open := func() (stages.Reencoder, error) { return again(m) }
	return &stage{Sharded: sharded, again: sync.OnceValues(open), recipe: recipe,
		frameInterval: float64(max(1, opts.FrameInterval)), width: int(opts.SequenceParallel), partition: opts.Partition,
		images: images}, nil
}

// check refuses what the model cannot do and sets its dtype. An option that says what holds anyway is taken
// out, so that it does not show in the keys.
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
	if _, err := sequence.ParsePartition(o.Partition); err != nil && o.Partition != "" && o.Partition != "auto" {
		return stages.Errorf("partition", "partition is %q: give auto, uneven or pad", o.Partition)
	}
	if recipe.GuidedChannels == 0 && o.GuidedChannels != 0 {
		return stages.Errorf("cfg_channel",
			"cfg_channel is %d: Open-Sora %s guides all channels, leave it out",
			o.GuidedChannels, cfg.Version)
	}
	if recipe.GuidedChannels != 0 && (o.GuidedChannels < 1 || o.GuidedChannels > cfg.InChannels) {
		return stages.Errorf("cfg_channel",
			"cfg_channel is %d: give 1 to %d, the latent channels", o.GuidedChannels, cfg.InChannels)
	}
	if o.FrameInterval == 1 {
		o.FrameInterval = 0
	}
	if o.FrameInterval < 0 || o.FrameInterval > 0 && cfg.Version == OpenSora10 {
		return stages.Errorf("frame_interval",
			"frame_interval is %d: give a positive number, and only from Open-Sora 1.1 on, "+
				"which is told the frame rate", o.FrameInterval)
	}
	return nil
}

// setDType takes the type that is asked for. Without one it is bf16, for which the versions from 1.1 on were
// published. 1.0 was published for fp16, which processors do not compute in: it then is fp32, of which fp16 is a
// rounding.
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

// setScales puts the scales that are given into the configuration.
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
		case given == *s.of: // it shows in no key
			*s.given = 0
		default:
			*s.of = given
		}
	}
	return nil
}

// maxScale bounds the scales of positions, far beyond the published 1/2, 2/3 and 1.
const maxScale = 1 << 10

type stage struct {
	nn.Sharded[Config, Model]
	again         func() (stages.Reencoder, error) // opens it for the first longer video
	recipe        sampler.Recipe
	frameInterval float64
	width         int    // devices for one batch; 0: as many as are of use
	partition     string // how they share it; "" and auto: the cheaper way
	images        imageOptions
}

// Capabilities says what the denoiser can do beyond Run.
func (s *stage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Params: s.Params(), Published: s.Published, LatentShape: s.LatentShape,
		LoopDigest: s.LoopDigest, Cost: s.Cost, Loading: s.Loading(),
		Spread: &stages.Spread{Width: s.Width, Run: s.RunSet}}
}

// Params are those that Spec cannot know of: from 1.1 on the network is told the frame rate, and takes
// given frames.
func (s *stage) Params() []stages.Param {
	if s.Config.Version == OpenSora10 {
		return nil
	}
	return []stages.Param{stages.ParamFPS, stages.ParamReference, stages.ParamMaskStrategy, stages.ParamLoop,
		stages.ParamConditionFrameLength, stages.ParamConditionFrameEdit}
}

// Check refuses sizes and frame rates that the model cannot do and impossible numbers of steps.
func (s *stage) Check(row *schemas.PromptRow) error {
	if err := s.Config.checkSize(row); err != nil {
		return err
	}
	if s.Config.Version != OpenSora10 && !(row.FPS > 0) {
		return fmt.Errorf("fps is %g: Open-Sora %s is told the frame rate, 24 as a rule", row.FPS, s.Config.Version)
	}
	if row.GuidanceScale == nil {
		return fmt.Errorf("guidance_scale is not given and the model has no default: "+
			"Open-Sora %s was published with %g", s.Config.Version, s.recipe.GuidanceScale)
	}
	if err := s.checkCondition(row); err != nil {
		return err
	}
	return s.recipe.Check(row.NumInferenceSteps, s.clip(row))
}

// clip is what the schedule may depend on.
func (s *stage) clip(row *schemas.PromptRow) sampler.Clip {
	return sampler.Clip{Height: row.Height, Width: row.Width, Frames: row.NumFrames,
		BF16: s.Config.DType == kernels.BF16}
}

// Need is that of the network for texts of full length.
func (s *stage) Need(row *schemas.PromptRow, n int) (int64, error) {
	switch {
	case s.byImages(row) || s.images.CondType != "" && row.Loop > 1:
		n = 3 * min(n, max(1, s.Pipeline)) // the branches of one element at a time, or of one for each stage
	case guided(row):
		n *= 2
	}
	need, err := s.Config.SampleBytes(n, s.Config.latentSize(row), s.Config.ModelMaxLength)
	if err != nil || row.Loop <= 1 || s.Config.Version == OpenSora13 {
		return need, err
	}
	again, err := s.again()
	if err != nil {
		return need, err
	}
	other, err := again.Need(row)
	return max(need, other), err
}

// guided reports whether the row is computed with an unconditional half. At scale 1 that half would
// cancel out.
func guided(row *schemas.PromptRow) bool { return row.Guidance() != 1 }

// checkTexts fails the elements whose text does not fit the model and returns the others.
func (s *stage) checkTexts(batch []*stages.Element) []*stages.Element {
	var fit []*stages.Element
	for _, e := range batch {
		err := s.checkText(e.Text.Embedding)
		if err == nil && e.Text.Negative != nil {
			err = s.checkText(e.Text.Negative)
		}
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		fit = append(fit, e)
	}
	return fit
}

func (s *stage) checkText(a *stages.Array) error {
	if a == nil {
		return errors.New("the row has no text embedding")
	}
	if len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[1] != s.Config.CaptionChannels {
		return fmt.Errorf("the text embedding has shape %v, the model takes (tokens, %d)",
			a.Shape, s.Config.CaptionChannels)
	}
	if a.Shape[0] > s.Config.ModelMaxLength {
		return fmt.Errorf("the text has %d tokens, the model takes %d: lower max_sequence_length",
			a.Shape[0], s.Config.ModelMaxLength)
	}
	return nil
}
