package vae

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// Model is an AutoencoderKL. It is read-only once loaded and may serve any backend of its device.
type Model struct {
	Config
	encoder encoder
	decoder decoder
}

// MaxSide bounds the height and width of images, in pixels.
const MaxSide = 1 << 14

// Load reads an autoencoder by the tensor names of diffusers; its attention may have either published
// spelling. The error lists every tensor that does not fit.
func Load(cfg Config, w *nn.Weights) (*Model, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Model{Config: cfg, encoder: loadEncoder(w, cfg), decoder: loadDecoder(w, cfg)}
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("load vae: %w", err)
	}
	return m, nil
}

// Decode turns latents z (N, c, h, w), already divided by the scaling factor, into pixels (N, H, W, 3) in
// about [-1, 1], channels last, in the scope open at the call. H is h * Downscale().
func (m *Model) Decode(be kernels.Backend, z kernels.Tensor) (kernels.Tensor, error) {
	f := m.Downscale()
	if len(z.Shape) != 4 || z.Dim(1) != m.LatentChannels || max(z.Dim(2), z.Dim(3)) > MaxSide/f {
		return kernels.Tensor{}, fmt.Errorf("vae: latents have shape %v, want (N, %d, h, w), each side at most %d",
			z.Shape, m.LatentChannels, MaxSide/f)
	}
	n, h, w := z.Dim(0), z.Dim(2), z.Dim(3)
	pixels := be.Alloc(kernels.F32, n, h*f, w*f, m.OutChannels) // (N, H, W, 3)
	defer be.Scope()()
	last := be.Alloc(kernels.F32, n, h, w, m.LatentChannels) // (N, h, w, c)
	be.Copy(last, z.Permute(0, 2, 3, 1))
	m.decoder.forward(be, pixels, last)
	return pixels, nil
}

// Encode turns pixels x (N, H, W, 3) in [-1, 1], channels last, into the mean of their latents
// (N, c, h, w), not yet times the scaling factor, in the scope open at the call. h is H halved, rounding
// down, once for each block but the last.
func (m *Model) Encode(be kernels.Backend, x kernels.Tensor) (kernels.Tensor, error) {
	f := m.Downscale()
	if len(x.Shape) != 4 || x.Dim(3) != m.InChannels ||
		min(x.Dim(1), x.Dim(2)) < f || max(x.Dim(1), x.Dim(2)) > MaxSide {
		return kernels.Tensor{}, fmt.Errorf("vae: pixels have shape %v, want (N, H, W, %d), each side %d to %d",
			x.Shape, m.InChannels, f, MaxSide)
	}
	n, h, w := x.Dim(0), x.Dim(1), x.Dim(2)
	mean := be.Alloc(kernels.F32, n, m.LatentChannels, h/f, w/f) // (N, c, h, w)
	defer be.Scope()()
	moments := m.encoder.forward(be, x) // (N, h, w, 2c)
	be.Copy(mean, moments.Narrow(3, 0, m.LatentChannels).Permute(0, 3, 1, 2))
	return mean, nil
}
