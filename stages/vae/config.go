package vae

import (
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weights"
)

// Config is the configuration of one of the autoencoders, as its config.json tells it.
type Config struct {
	// Name is the architecture: that of a case of ParseConfig.
	Name string
	// DType is the type of the activations; weights are rounded to it on loading. F32 unless changed.
	DType kernels.DType
	Traits

	arch architecture
}

// Traits are the differences between autoencoders that concern stages.
type Traits struct {
	// Scale is the factor between the latents that Decode takes and those of a denoiser.
	Scale float64
	// Mean and Std are the statistics of each channel of raw latents, which make those of a denoiser of them; nil where
	// config.json does not tell.
	Mean, Std []float64
	// Group is what is decoded without a look at other frames; of banded autoencoders it says nothing.
	Group Grouping
	// Banded says that all frames of a clip depend on each other, so devices share its rows.
	Banded bool

	title     string   // of the architecture, for people
	truncates bool     // pixels become bytes by cutting off, not by rounding
	unread    []string // names of tensors that published files hold and no network needs
}

// architecture is what all autoencoders have in common before they are loaded.
type architecture interface {
	// Validate checks what config.json said.
	Validate() error
	// Latents returns the shape (C, T', h, w) that a clip of that many frames and pixels is encoded to; the
	// error names the parameter that does not fit.
	Latents(frames, height, width int) ([]int, error)
	// Downscale returns how many pixels a latent position becomes, in height and in width: 8 in published
	// models.
	Downscale() int
	// traits describes a valid configuration.
	traits() Traits
	// load makes the network; tensors that do not fit are noted in w.
	load(w *weights.Weights, dt kernels.DType) network
}

// ParseConfig reads the config.json of a published autoencoder, of diffusers or of Open-Sora.
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
		return Config{}, fmt.Errorf("vae config.json: %q is not an autoencoder this version computes; there are "+
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

// LatentShape returns the shape (C, T', h, w) of the latents of a clip of that many frames and pixels.
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

// ShapeOf returns the shape of the latents of a row's clip.
func (c Config) ShapeOf(row *schemas.PromptRow) ([]int, error) {
	return c.LatentShape(row.NumFrames, row.Height, row.Width)
}

// MaxSide bounds the height and width of images, in pixels.
const MaxSide = 1 << 14

// Downscale returns how many pixels a latent position becomes, in height and in width.
func (c Config) Downscale() int { return c.arch.Downscale() }

// LatentSpace describes the latents of an autoencoder with weights of this digest.
func (c Config) LatentSpace(digest string) stages.LatentSpace {
	return stages.LatentSpace{Mean: c.Mean, Std: c.Std, Digest: digest}
}

// Naming is how the family that the autoencoder was made for reads names of sizes.
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
