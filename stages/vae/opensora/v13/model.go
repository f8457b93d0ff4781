package v13

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
	return &Model{Config: c, encoder: loadEncoder(w.Sub("encoder"), &c.Encoder),
		decoder: loadDecoder(w.Sub("decoder"), &c.Decoder)}
}

// EncodeGroup returns the moments (1, T', h, w, 2z) of a group's pixels x (1, T, H, W, 3): mean, then log variance.
func (m *Model) EncodeGroup(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	return m.encoder.forward(be, x)
}

// DecodeGroup returns the pixels (1, 4T-3, H, W, 3) of a group's latents z (1, T, h, w, z).
func (m *Model) DecodeGroup(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	return m.decoder.forward(be, z)
}
