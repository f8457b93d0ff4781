package kl

import (
	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// Model is a loaded autoencoder. It is read-only and may serve any backend of its device.
type Model struct {
	*Config
	encoder encoder
	decoder decoder
}

// Load loads an autoencoder by its published tensor names. Tensors that do not fit are recorded in w.
func Load(w *weights.Weights, c *Config) *Model {
	return &Model{Config: c, encoder: loadEncoder(w, c), decoder: loadDecoder(w, c)}
}

// Encode returns the moments (N, h, w, 2c) of pixels x (N, H, W, 3): mean, then log variance.
func (m *Model) Encode(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	return m.encoder.forward(be, x)
}

// Decode returns the pixels (N, H, W, 3) of latents z (N, h, w, c).
func (m *Model) Decode(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	return m.decoder.forward(be, z)
}
