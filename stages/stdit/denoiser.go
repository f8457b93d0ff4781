package stdit

import (
	"fmt"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/weights"
)

// latentScale is the denoiser's latents divided by the 2D autoencoder's, in Open-Sora 1.0 and 1.1. The autoencoders of later
// versions scale their latents themselves.
const latentScale = 0.18215

// groupOf13 is the number of latent frames that the autoencoder of 1.3 decodes together. Clips are joined as latents, so they
// must be joined between groups. The reference's script for 1.3 assigns the end of a clip to the clip before
// (scripts/inference.py counts the loop one too low), so that no clip continues another. This package assigns it to the next
// clip, as the reference's docs/config.md says.
const groupOf13 = 5

// conditionFrames is the number of latent frames with which the next clip continues.
var conditionFrames = map[Version]int{OpenSora11: 4, OpenSora12: 5, OpenSora13: 5}

// Denoiser returns the family of STDiT, STDiT2 and STDiT3 for the stage `denoise`.
func Denoiser() dit.Family {
	return dit.Family{
		Name: "STDiT", Models: "Open-Sora 1.0 to 1.3",
		Options:    "frame_interval, version, cond_type, image_cfg_scale, use_sdedit",
		Checkpoint: family(), Recognise: recognise,
		Pipelines: map[string]string{"OpenSoraPipeline": "text to video"},
		Open: func(configs dit.Configs, o stages.Options) (dit.Network, error) {
			cfg, err := ParseConfig(configs.Config)
			if err != nil {
				return nil, err
			}
			return open(cfg, o)
		},
	}
}

// denoiser is a model of the family, with the options of a job.
type denoiser struct {
	Config
	options dit.Options
	recipe  sampler.Recipe
	images  imageOptions
	// frameInterval is the number of frames of the video for each frame that is made.
	frameInterval float64
}

// open applies the options of a job to a configuration.
func open(cfg Config, o stages.Options) (*denoiser, error) {
	recipe, err := sampler.OpenSora(cfg.Version.String())
	if err != nil {
		return nil, err
	}
	opts := options{Options: dit.Options{GuidedChannels: recipe.GuidedChannels}}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if err := opts.check(&cfg, recipe); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	recipe, err = opts.choose(cfg, recipe)
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	images := imageOptions{opts.CondType, opts.ImageScale, opts.SDEdit}
	if err := images.fill(cfg.Version); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	opts.ImageScale, opts.SDEdit = images.Scale, images.SDEdit
	return &denoiser{cfg, opts.Options, recipe, images, float64(max(1, opts.FrameInterval))}, nil
}

// Describe returns what the stage must know about the network.
func (d *denoiser) Describe() dit.Description {
	out := d.Config.describe()
	out.Options, out.Recipe, out.Published = d.options, d.recipe, d.published()
	if d.Version == OpenSora10 {
		return out
	}
	// From 1.1 on the network has the frame rate as an input, and takes given frames.
	out.Params = []stages.Param{stages.ParamFPS, stages.ParamReference, stages.ParamMaskStrategy, stages.ParamLoop,
		stages.ParamConditionFrameLength, stages.ParamConditionFrameEdit}
	out.Conditions = dit.Conditions{Marked: true, Images: d.images.images()}
	switch d.Version {
	case OpenSora12: // its published configuration aligns starts to 5 latent frames, one group of the autoencoder
		out.Conditions.Align = 5
	case OpenSora13:
		out.Conditions.Group = groupOf13
	}
	return out
}

// describe returns the part of the description that follows from the configuration alone.
func (c Config) describe() dit.Description {
	out := dit.Description{Name: c.Version.title(), Naming: schemas.OpenSora, Channels: c.InChannels, OutChannels: c.OutChannels(),
		Patch: c.PatchSize, Hidden: c.HiddenSize, Heads: c.NumHeads, Blocks: c.Depth, Sums: c.sums(), DType: c.DType,
		TextWidth: c.CaptionChannels, TextTokens: c.ModelMaxLength, LatentScale: 1}
	if c.Version == OpenSora10 || c.Version == OpenSora11 {
		out.LatentScale = latentScale
	}
	return out
}

// sums returns the number of layers in a pair of blocks whose sums tensor parallelism splits: the output layers of attentions
// and MLPs.
func (c Config) sums() int {
	if c.Version == OpenSora10 || c.Version == OpenSora11 { // a single block has both attentions
		return 4
	}
	return 6
}

// published returns the sampling parameters of the version's inference configuration, and the text length that the model was
// trained with.
func (d *denoiser) published() schemas.PromptRow {
	guidance, fps := d.recipe.GuidanceScale, 24/d.frameInterval
	if d.Version == OpenSora10 {
		fps = 8
	}
	return schemas.PromptRow{NumInferenceSteps: d.recipe.NumInferenceSteps, GuidanceScale: &guidance, FPS: fps,
		MaxSequenceLength: d.ModelMaxLength, ConditionFrameLength: conditionFrames[d.Version]}
}

// LatentSize returns the size of a row's latents.
func (d *denoiser) LatentSize(row *schemas.PromptRow) dit.LatentSize { return d.latentSize(row) }

// Check returns an error for sizes and frame rates that the model does not support.
func (d *denoiser) Check(row *schemas.PromptRow) error {
	if err := d.checkSize(row); err != nil {
		return err
	}
	if d.Version != OpenSora10 && !(row.FPS > 0) {
		return fmt.Errorf("fps is %g: Open-Sora %s takes the frame rate as an input, usually 24", row.FPS, d.Version)
	}
	return nil
}

// Load reads the weights.
func (d *denoiser) Load(w *weights.Weights) (dit.Model, error) {
	m, err := Load(d.Config, w)
	if err != nil {
		return nil, err
	}
	return &loaded{m, d.frameInterval}, nil
}
