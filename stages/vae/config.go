package vae

import (
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/weight"
)

// Config is the configuration of one of the autoencoders, as its config.json tells it.
type Config struct {
	// Name is the architecture: that of a case of ParseConfig.
	Name string
	// DType is the type of the activations; weights are rounded to it on loading. F32 unless changed.
	DType kernels.DType

	arch architecture
}

// architecture is what all autoencoders have in common before they are loaded.
type architecture interface {
	// validate checks what config.json said.
	validate() error
	// load makes the network; tensors that do not fit are noted in w.
	load(w *weight.Weights, dt kernels.DType) network
	// latents returns the shape (C, T', h, w) that a clip of that many frames and pixels is encoded to; the
	// error names the parameter that does not fit.
	latents(frames, height, width int) ([]int, error)
	// downscale returns how many pixels a latent position becomes, in height and in width: 8 in published
	// models.
	downscale() int
	// scale is the factor between the autoencoder's own latents and what the denoiser sees.
	scale() float64
	// statistics returns the mean and standard deviation of each channel of the autoencoder's own latents, which make those
	// of the denoiser of them; nil where config.json does not tell.
	statistics() (mean, std []float64)
}

// network is a loaded autoencoder. Only the memory of one group of frames is in use at any moment.
type network interface {
	// decode calls emit with the pixels (H, W, 3), in about [-1, 1], of every frame in order. micro is how
	// many frames are decoded at a time where the architecture leaves that open.
	decode(be kernels.Backend, z *stages.Array, frames, micro int, emit func(pixels []float32)) error
	// encode returns the latents (C, T', h, w) of the clip, raw: as the posterior has them.
	encode(be kernels.Backend, clip clip, micro int, draw Noise) (*stages.Array, error)
	// normalize makes of raw latents (C, T', h, w), in place, what decode takes.
	normalize(be kernels.Backend, z *stages.Array) error
	// decodeGroup and encodeGroup do the device's work on the largest group, to learn what memory it takes.
	decodeGroup(be kernels.Backend, frames, height, width, micro int)
	encodeGroup(be kernels.Backend, frames, height, width, micro int)
}

// clip is a video to be encoded. pixels fills dst (n, H, W, 3) with frames first to first+n in [-1, 1].
type clip struct {
	frames, height, width int
	pixels                func(dst []float32, first, n int) error
}

// ParseConfig reads the config.json of a published autoencoder, of diffusers or of Open-Sora.
func ParseConfig(data []byte) (Config, error) {
	var about struct {
		ClassName string `json:"_class_name"` // of diffusers
		ModelType string `json:"model_type"`  // of transformers
	}
	if err := json.Unmarshal(data, &about); err != nil {
		return Config{}, fmt.Errorf("parse vae config.json: %w", err)
	}
	c := Config{Name: about.ClassName}
	if c.Name == "" {
		c.Name = about.ModelType
	}
	switch c.Name {
	case "", "AutoencoderKL":
		cfg := newKLConfig()
		c.Name, c.arch = "AutoencoderKL", &cfg
	case "VideoAutoencoderPipeline":
		c.arch = newPipelineConfig()
	case "OpenSoraVAE_V1_3_Pipline":
		c.arch = newCausalConfig()
	case "AutoencoderKLWan":
		c.arch = newWanConfig()
	case "CausalVAEModel":
		c.arch = newCausalVAEConfig()
	case "WFVAEModel":
		c.arch = newWFConfig()
	default:
		return Config{}, fmt.Errorf("vae config.json: %q is not an autoencoder this version computes; there are "+
			"AutoencoderKL, AutoencoderKLWan, VideoAutoencoderPipeline (Open-Sora 1.2), OpenSoraVAE_V1_3_Pipline, "+
			"CausalVAEModel (Open-Sora-Plan 1.2) and WFVAEModel (Open-Sora-Plan 1.3)", c.Name)
	}
	if err := json.Unmarshal(data, c.arch); err != nil {
		return Config{}, fmt.Errorf("parse vae config.json: %w", err)
	}
	return c, c.arch.validate()
}

// LatentShape returns the shape (C, T', h, w) of the latents of a clip of that many frames and pixels.
func (c Config) LatentShape(frames, height, width int) ([]int, error) {
	d := c.arch.downscale()
	switch {
	case frames < 1:
		return nil, fmt.Errorf("num_frames is %d: give 1 or more", frames)
	case height < d || height > MaxSide:
		return nil, fmt.Errorf("height is %d: give %d to %d pixels", height, d, MaxSide)
	case width < d || width > MaxSide:
		return nil, fmt.Errorf("width is %d: give %d to %d pixels", width, d, MaxSide)
	}
	return c.arch.latents(frames, height, width)
}

// Downscale returns how many pixels a latent position becomes, in height and in width.
func (c Config) Downscale() int { return c.arch.downscale() }

// Scale is the factor between the latents that Decode takes and those of a denoiser.
func (c Config) Scale() float64 { return c.arch.scale() }

// forDenoiser makes of latents that Decode takes, in place, those of a denoiser.
func (c Config) forDenoiser(z *stages.Array) {
	scale := c.Scale()
	for i, v := range z.Data {
		z.Data[i] = weight.Round(c.DType, float32(float64(v)*scale))
	}
}

// latentSpace describes the latents of an autoencoder with weights of this digest.
func (c Config) latentSpace(digest string) stages.LatentSpace {
	mean, std := c.arch.statistics()
	return stages.LatentSpace{Mean: mean, Std: std, Digest: digest}
}

// MaxSide bounds the height and width of images, in pixels.
const MaxSide = 1 << 14
