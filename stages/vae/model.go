package vae

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/posterior"
	"latentbeam/stages/weight"
)

// Noise draws the standard normals of latents; see posterior.Noise.
type Noise = posterior.Noise

// Model is a loaded autoencoder. It is read-only and may serve any backend of its device.
type Model struct {
	Config
	network network
}

// Load reads an autoencoder by its published tensor names. The error lists every tensor that does not fit.
func Load(cfg Config, w *weight.Weights) (*Model, error) {
	m := &Model{Config: cfg, network: cfg.arch.load(w.As(cfg.DType), cfg.DType)}
	if err := w.Check(unread(cfg.arch)...); err != nil {
		return nil, fmt.Errorf("load vae: %w", err)
	}
	return m, nil
}

// unread are names of tensors that published files hold and no network needs: the filters of Haar transforms, which are
// constant, and what the reference's training measures losses with.
func unread(arch architecture) []string {
	switch arch.(type) {
	case *WFConfig:
		return []string{"encoder.wavelet_tranform_l1.*", "encoder.wavelet_tranform_l2.*",
			"decoder.inverse_wavelet_tranform_l1.*", "decoder.inverse_wavelet_tranform_l2.*"}
	case *CausalVAEConfig:
		return []string{"loss.*"}
	}
	return nil
}

// Decode turns latents z (C, T', h, w), as the autoencoder itself has them (divided by Scale), into the
// given number of frames and calls emit with the pixels (H, W, 3) of each in order, in about [-1, 1],
// channels last. pixels is valid until emit returns. micro is how many frames the 2D part takes at a time:
// it bounds memory and changes no value.
func (m *Model) Decode(
	be kernels.Backend, z *stages.Array, frames, micro int, emit func(pixels []float32),
) error {
	if len(z.Shape) != 4 {
		return fmt.Errorf("vae: latents have shape %v, want (C, T, h, w)", z.Shape)
	}
	d := m.arch.downscale()
	want, err := m.LatentShape(frames, z.Shape[2]*d, z.Shape[3]*d)
	if err != nil {
		return fmt.Errorf("vae: %w", err)
	}
	if !slices.Equal(z.Shape, want) {
		return fmt.Errorf("vae: latents have shape %v, those of %d frames have %v", z.Shape, frames, want)
	}
	return m.network.decode(be, z, frames, max(1, micro), emit)
}

// Encode returns the latents (C, T', h, w) of a video of frames of height x width pixels as Decode takes them, not yet
// times Scale. pixels fills dst (n, H, W, 3) with the frames first to first+n, in [-1, 1]. Where draw is nil the
// latents are the means of their posteriors, else samples. Frames are asked for in order, and where groups
// overlap the last one of a group again. micro is that of Decode.
func (m *Model) Encode(be kernels.Backend, frames, height, width, micro int, draw Noise,
	pixels func(dst []float32, first, n int) error) (*stages.Array, error) {
	z, err := m.EncodeRaw(be, frames, height, width, micro, draw, pixels)
	if err != nil {
		return nil, err
	}
	return z, m.network.normalize(be, z)
}

// EncodeRaw is Encode without the statistics of the channels: the latents are those of the posterior.
func (m *Model) EncodeRaw(be kernels.Backend, frames, height, width, micro int, draw Noise,
	pixels func(dst []float32, first, n int) error) (*stages.Array, error) {
	if _, err := m.LatentShape(frames, height, width); err != nil {
		return nil, fmt.Errorf("vae: %w", err)
	}
	return m.network.encode(be, clip{frames, height, width, pixels}, max(1, micro), draw)
}

// ForDenoiser returns what a denoiser has of raw latents (C, T', h, w). It is the one way from raw latents to others, so a
// table of raw latents gives the bytes that the job which encoded them went on with.
func (m *Model) ForDenoiser(be kernels.Backend, raw *stages.Array) (*stages.Array, error) {
	z := &stages.Array{Shape: slices.Clone(raw.Shape), Data: slices.Clone(raw.Data)}
	if err := m.network.normalize(be, z); err != nil {
		return nil, err
	}
	m.Config.forDenoiser(z)
	return z, nil
}

// DecodeBytes returns the device memory that Decode needs for such a clip, without the weights.
func (c Config) DecodeBytes(frames, height, width, micro int) (int64, error) {
	return c.peak(frames, height, width, func(n network, be kernels.Backend) {
		n.decodeGroup(be, frames, height, width, max(1, micro))
	})
}

// EncodeBytes returns the same for Encode.
func (c Config) EncodeBytes(frames, height, width, micro int) (int64, error) {
	return c.peak(frames, height, width, func(n network, be kernels.Backend) {
		n.encodeGroup(be, frames, height, width, max(1, micro))
	})
}

func (c Config) peak(frames, height, width int, f func(network, kernels.Backend)) (int64, error) {
	if _, err := c.LatentShape(frames, height, width); err != nil {
		return 0, fmt.Errorf("vae: %w", err)
	}
	m, err := Load(c, weight.ShapesOnly())
	if err != nil {
		return 0, err
	}
	return nn.PeakBytes(func(be kernels.Backend) error {
		f(m.network, be)
		return nil
	})
}
