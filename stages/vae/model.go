package vae

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"

	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// Video is a clip to encode. Pixels fills dst (n, H, W, 3) with the frames first to first+n, in [-1, 1]. Frames are requested
// in order; if groups overlap, the last frame of a group is requested again.
type Video struct {
	Frames, Height, Width int
	Pixels                func(dst []float32, first, n int) error
}

// network is a loaded autoencoder. At any moment it uses memory for only one group of frames.
type network interface {
	// decode calls emit with the pixels (H, W, 3), in about [-1, 1], of every frame in order. micro is the number of frames
	// that are decoded at a time, for architectures that can choose it.
	decode(be kernels.Backend, z *stages.Array, frames, micro int, emit func(pixels []float32)) error
	// encode fills the raw latents of p. The caller has set everything in p except the step of the noise.
	encode(be kernels.Backend, c Video, micro int, p *Posterior) error
	// normalize converts raw latents (C, T', h, w), in place, to the latents that decode takes.
	normalize(be kernels.Backend, z *stages.Array) error
	// decodeGroup and encodeGroup run the device's work for the largest group, to measure its memory.
	decodeGroup(be kernels.Backend, frames, height, width, micro int)
	encodeGroup(be kernels.Backend, frames, height, width, micro int)
}

// compute uploads values with the given shape, calls f, and downloads the result into dst.
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

// Load loads an autoencoder by its published tensor names. The error lists every tensor that does not fit.
func Load(cfg Config, w *weights.Weights) (*Model, error) {
	m := &Model{Config: cfg, network: cfg.arch.load(w.As(cfg.DType), cfg.DType)}
	if err := w.Check(cfg.unusedTensors...); err != nil {
		return nil, fmt.Errorf("load vae: %w", err)
	}
	return m, nil
}

// Decode decodes latents z (C, T', h, w) in the autoencoder's own space (divided by Scale) to the given number of frames. It
// calls emit with the pixels (H, W, 3) of each frame in order, in about [-1, 1], channels last. pixels is valid until emit
// returns. micro is the number of frames that the 2D part decodes at a time; it limits memory and does not change values.
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
		return fmt.Errorf("vae: latents have shape %v, %d frames need %v", z.Shape, frames, want)
	}
	return m.network.decode(be, z, frames, max(1, micro), emit)
}

// Encode returns the raw latents (C, T', h, w) of a clip, without normalisation by the statistics of the channels. They are
// samples of the posterior, or its means if draw is nil. micro works as in Decode.
func (m *Model) Encode(be kernels.Backend, c Video, micro int, draw Noise) (*stages.Array, error) {
	p, err := m.posterior(c, draw)
	if err != nil {
		return nil, err
	}
	return p.Latents, m.network.encode(be, c, max(1, micro), p)
}

// posterior returns an empty posterior for a clip.
func (m *Model) posterior(c Video, draw Noise) (*Posterior, error) {
	shape, err := m.LatentShape(c.Frames, c.Height, c.Width)
	if err != nil {
		return nil, fmt.Errorf("vae: %w", err)
	}
	return &Posterior{DType: m.DType, Latents: stages.NewArray(shape...), Draw: draw}, nil
}

// ForDenoiser converts raw latents (C, T', h, w) to the denoiser's latents. All code uses this function, so a job that reads
// raw latents from a table computes the same bytes as the job that encoded them.
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

// DecodeBand is Decode for this rank's rows of the latents, for banded autoencoders. bands is nil if this rank has all rows.
func (m *Model) DecodeBand(be kernels.Backend, z *stages.Array, bands *stream.Bands, emit func(pixels []float32)) error {
	return m.network.(*streamed).decodeBand(be, z, bands, emit)
}

// EncodeBand returns the moments (T', h, w, 2C) of this rank's rows of a clip, for banded autoencoders. Height and Pixels of c
// refer to these rows. bands is nil if this rank has all rows.
func (m *Model) EncodeBand(be kernels.Backend, c Video, bands *stream.Bands) (moments []float32, err error) {
	return m.network.(*streamed).encodeBand(be, c, bands)
}

// Sample returns the result of Encode, given the moments (T', h, w, 2C) of all rows of a clip.
func (m *Model) Sample(c Video, moments []float32, draw Noise) (*stages.Array, error) {
	p, err := m.posterior(c, draw)
	if err != nil {
		return nil, err
	}
	p.Step = VideoNoise
	p.Sample(moments, 0, p.Latents.Shape[1])
	return p.Latents, nil
}
