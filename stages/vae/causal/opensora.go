package causal

import (
	"latentbeam/kernels"
	"latentbeam/stages/weight"
)

// OpenSoraModel is a loaded autoencoder of Open-Sora 1.3 (OpenSoraVAE_V1_3): one causal 3D network over groups of 17
// frames, after MAGVIT-v2 (arXiv:2310.05737). It is read-only and may serve any backend of its device.
type OpenSoraModel struct {
	*OpenSora
	encoder causalEncoder
	decoder causalDecoder
}

// LoadOpenSora reads an autoencoder of Open-Sora 1.3 by its published tensor names. Tensors that do not fit are noted in w.
func LoadOpenSora(w *weight.Weights, c *OpenSora) *OpenSoraModel {
	return &OpenSoraModel{OpenSora: c, encoder: loadCausalEncoder(w.Sub("encoder"), &c.Encoder),
		decoder: loadCausalDecoder(w.Sub("decoder"), &c.Decoder)}
}

// EncodeGroup returns the moments (1, T', h, w, 2z) of the pixels x (1, T, H, W, 3) of a group: mean, then log variance.
func (m *OpenSoraModel) EncodeGroup(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	return m.encoder.forward(be, x)
}

// DecodeGroup returns the pixels (1, 4T-3, H, W, 3) of the latents z (1, T, h, w, z) of a group.
func (m *OpenSoraModel) DecodeGroup(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	return m.decoder.forward(be, z)
}
