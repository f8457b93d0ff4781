package vae

import (
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weights"
)

// Config is the configuration of one of the autoencoders, read from its config.json.
type Config struct {
	// Name is the architecture, as in the cases of ParseConfig.
	Name string
	// DType is the type of the activations, F32 by default. Weights are rounded to it when they are loaded.
	DType kernels.DType
	Traits

	arch architecture
}

// Traits describes how an autoencoder differs from others, as far as stages need to know.
type Traits struct {
	// Scale is the denoiser's latents divided by the latents that Decode takes.
	Scale float64
	// Mean and Std are the statistics of each channel that convert raw latents to the denoiser's; nil if config.json does not
	// contain them.
	Mean, Std []float64
	// Group describes the groups of frames that are decoded independently. It is not used for banded autoencoders.
	Group Grouping
	// Banded says that all frames of a clip depend on each other, so devices share the rows of frames instead of the frames.
	Banded bool

	title         string   // name of the architecture for people
	truncates     bool     // pixels become bytes by truncation, not by rounding
	unusedTensors []string // names of tensors in published files that no network needs
}

// architecture is the interface of all autoencoders before they are loaded.
type architecture interface {
	// Validate checks the values of config.json.
	Validate() error
	// Latents returns the shape (C, T', h, w) of the latents of a clip with these frames and pixels. The error names the
	// parameter that does not fit.
	Latents(frames, height, width int) ([]int, error)
	// Downscale returns the number of pixels for one latent position, in height and in width: 8 in published models.
	Downscale() int
	// traits describes a valid configuration.
	traits() Traits
	// load makes the network. Tensors that do not fit are recorded in w.
	load(w *weights.Weights, dt kernels.DType) network
}

// ParseConfig parses the config.json of a published autoencoder, from diffusers or Open-Sora.
func ParseConfig(data []byte) (Config, error) {
	var about struct {
		ClassName stages.ClassName `json:"_class_name"` // of diffusers
		ModelType string           `json:"model_type"`  // of transformers
	}
	if err := json.Unmarshal(data, &about); err != nil {
		return Config{}, fmt.Errorf("parse vae config.json: %w", err)
	}
	c := Config{Name: string(about.ClassName)}
	if c.Name == "" {
		c.Name = about.ModelType
	}
	switch c.Name {
	case "", "AutoencoderKL":
		c.Name, c.arch = "AutoencoderKL", newKL()
	case "VideoAutoencoderPipeline":
		c.arch = newOpenSora12()
	case "OpenSoraVAE_V1_3_Pipline":
		c.arch = newOpenSora13()
	case "AutoencoderKLWan":
		c.arch = newWan()
	case "CausalVAEModel":
		c.arch = newCausalVAE()
	case "WFVAEModel":
		c.arch = newWF()
	default:
		return Config{}, fmt.Errorf("vae config.json: %q is not a supported autoencoder; there are "+
			"AutoencoderKL, AutoencoderKLWan, VideoAutoencoderPipeline (Open-Sora 1.2), OpenSoraVAE_V1_3_Pipline, "+
			"CausalVAEModel (Open-Sora-Plan 1.2) and WFVAEModel (Open-Sora-Plan 1.3)", c.Name)
	}
	if err := json.Unmarshal(data, c.arch); err != nil {
		return Config{}, fmt.Errorf("parse vae config.json: %w", err)
	}
	if err := c.arch.Validate(); err != nil {
		return c, fmt.Errorf("vae config.json: %w", err)
	}
	c.Traits = c.arch.traits()
	return c, nil
}

// LatentShape returns the shape (C, T', h, w) of the latents of a clip with these frames and pixels.
func (c Config) LatentShape(frames, height, width int) ([]int, error) {
	d := c.Downscale()
	switch {
	case frames < 1:
		return nil, fmt.Errorf("num_frames is %d: give 1 or more", frames)
	case height < d || height > MaxSide:
		return nil, fmt.Errorf("height is %d: give %d to %d pixels", height, d, MaxSide)
	case width < d || width > MaxSide:
		return nil, fmt.Errorf("width is %d: give %d to %d pixels", width, d, MaxSide)
	}
	return c.arch.Latents(frames, height, width)
}

// ShapeOf returns the latent shape of a row's clip.
func (c Config) ShapeOf(row *schemas.PromptRow) ([]int, error) {
	return c.LatentShape(row.NumFrames, row.Height, row.Width)
}

// MaxSide limits the height and width of images, in pixels.
const MaxSide = 1 << 14

// Downscale returns the number of pixels for one latent position, in height and in width.
func (c Config) Downscale() int { return c.arch.Downscale() }

// LatentSpace describes the latents of an autoencoder. digest is the digest of its weights.
func (c Config) LatentSpace(digest string) stages.LatentSpace {
	return stages.LatentSpace{Mean: c.Mean, Std: c.Std, Digest: digest}
}

// Naming returns how the autoencoder's family reads names of sizes.
func (c Config) Naming() *schemas.Naming {
	switch c.Name {
	case "AutoencoderKLWan":
		if c.Downscale() == 16 {
			return schemas.WanTI2V
		}
		return schemas.Wan
	case "CausalVAEModel", "WFVAEModel":
		return schemas.OpenSoraPlan
	}
	return schemas.OpenSora
}
