package vae

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"

	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// Video is a clip to be encoded. Pixels fills dst (n, H, W, 3) with the frames first to first+n, in [-1, 1]. Frames are
// asked for in order, and where groups overlap the last one of a group again.
type Video struct {
	Frames, Height, Width int
	Pixels                func(dst []float32, first, n int) error
}

// network is a loaded autoencoder. Only the memory of one group of frames is in use at any moment.
type network interface {
	// decode calls emit with the pixels (H, W, 3), in about [-1, 1], of every frame in order. micro is how
	// many frames are decoded at a time where the architecture leaves that open.
	decode(be kernels.Backend, z *stages.Array, frames, micro int, emit func(pixels []float32)) error
	// encode fills the latents of p, of which only the step of the noise is still open, raw: as the posterior has them.
	encode(be kernels.Backend, c Video, micro int, p *Posterior) error
	// normalize makes of raw latents (C, T', h, w), in place, what decode takes.
	normalize(be kernels.Backend, z *stages.Array) error
	// decodeGroup and encodeGroup do the device's work on the largest group, to learn what memory it takes.
	decodeGroup(be kernels.Backend, frames, height, width, micro int)
	encodeGroup(be kernels.Backend, frames, height, width, micro int)
}

// compute downloads into dst what f makes of values of the given shape.
func compute(be kernels.Backend, dt kernels.DType, dst, values []float32, f func(kernels.Backend, kernels.Tensor) kernels.Tensor,
	shape ...int) error {
	defer be.Scope()()
	x := be.Alloc(dt, shape...)
	be.Upload(x, values)
	return be.Download(dst, f(be, x))
}

// Model is a loaded autoencoder. It is read-only and may serve any backend of its device.
type Model struct {
	Config
	network network
}

// Load reads an autoencoder by its published tensor names. The error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Model, error) {
	m := &Model{Config: cfg, network: cfg.arch.load(w.As(cfg.DType), cfg.DType)}
	if err := w.Check(cfg.unread...); err != nil {
		return nil, fmt.Errorf("load vae: %w", err)
	}
	return m, nil
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
	d := m.Downscale()
	want, err := m.LatentShape(frames, z.Shape[2]*d, z.Shape[3]*d)
	if err != nil {
		return fmt.Errorf("vae: %w", err)
	}
	if !slices.Equal(z.Shape, want) {
		return fmt.Errorf("vae: latents have shape %v, those of %d frames have %v", z.Shape, frames, want)
	}
	return m.network.decode(be, z, frames, max(1, micro), emit)
}

// Encode returns the raw latents (C, T', h, w) of a clip: those of the posterior, without the statistics of the
// channels. Where draw is nil they are the means of their posteriors, else samples. micro is that of Decode.
func (m *Model) Encode(be kernels.Backend, c Video, micro int, draw Noise) (*stages.Array, error) {
	p, err := m.posterior(c, draw)
	if err != nil {
		return nil, err
	}
	return p.Latents, m.network.encode(be, c, max(1, micro), p)
}

// posterior is that of the latents of a clip.
func (m *Model) posterior(c Video, draw Noise) (*Posterior, error) {
	shape, err := m.LatentShape(c.Frames, c.Height, c.Width)
	if err != nil {
		return nil, fmt.Errorf("vae: %w", err)
	}
	return &Posterior{DType: m.DType, Latents: stages.NewArray(shape...), Draw: draw}, nil
}

// ForDenoiser returns what a denoiser has of raw latents (C, T', h, w). It is the one way from raw latents to others, so a
// table of raw latents gives the bytes that the job which encoded them went on with.
func (m *Model) ForDenoiser(be kernels.Backend, raw *stages.Array) (*stages.Array, error) {
	z := &stages.Array{Shape: slices.Clone(raw.Shape), Data: slices.Clone(raw.Data)}
	if err := m.network.normalize(be, z); err != nil {
		return nil, err
	}
	for i, v := range z.Data {
		z.Data[i] = m.DType.Round(float32(float64(v) * m.Scale))
	}
	return z, nil
}

// DecodeBand is Decode of this rank's rows of the latents of a banded autoencoder. bands is nil where it has all rows.
func (m *Model) DecodeBand(be kernels.Backend, z *stages.Array, bands *stream.Bands, emit func(pixels []float32)) error {
	return m.network.(*streamed).decodeBand(be, z, bands, emit)
}

// EncodeBand returns the moments (T', h, w, 2C) of this rank's rows of a clip, of which Height and Pixels are, for a
// banded autoencoder. bands is nil where it has all rows.
func (m *Model) EncodeBand(be kernels.Backend, c Video, bands *stream.Bands) (moments []float32, err error) {
	return m.network.(*streamed).encodeBand(be, c, bands)
}

// Sample returns what Encode does, of the moments (T', h, w, 2C) of all rows of a clip.
func (m *Model) Sample(c Video, moments []float32, draw Noise) (*stages.Array, error) {
	p, err := m.posterior(c, draw)
	if err != nil {
		return nil, err
	}
	p.Step = VideoNoise
	p.Sample(moments, 0, p.Latents.Shape[1])
	return p.Latents, nil
}
