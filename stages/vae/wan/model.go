package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// Model is a loaded autoencoder. It is read-only and may serve any backend of its device.
type Model struct {
	*Config
	dt      kernels.DType
	encoder encoder
	decoder decoder
}

// Load loads an autoencoder by its published tensor names, for activations of type dt. Tensors that do not fit are recorded in
// w.
func Load(c *Config, w *weights.Weights, dt kernels.DType) *Model {
	return &Model{Config: c, dt: dt, encoder: loadEncoder(w, c), decoder: loadDecoder(w, c)}
}

// Decode decodes latents z (T, h, w, C) in the autoencoder's own space to pixels. It calls emit with n frames (n, H, W, 3) at a
// time, in order, with values in [-1, 1]: first one frame, then four at a time. pixels is valid until emit returns. With bands,
// z and the pixels are this rank's rows.
func (m *Model) Decode(be kernels.Backend, z []float32, t, h, w int, bands *stream.Bands,
	emit func(pixels []float32, n int)) error {
	defer be.Scope()()
	s := m.decoder.start(be, m.dt, h, w, bands)
	d, size := m.Downscale(), h*w*m.ZDim
	pixels := make([]float32, stream.Factor*h*d*w*d*3)
	for i := range t {
		s.Last = i == t-1
		n, frames, err := s.Step(pixels, func() kernels.Tensor {
			return m.decoder.forward(s, s.Chunk(z[i*size:][:size], 1, 1, h, w, m.ZDim), i == 0)
		})
		if err != nil {
			return err
		}
		for j, v := range pixels[:n] {
			pixels[j] = clamp(v)
		}
		emit(pixels[:n], frames)
	}
	return nil
}

// clamp limits v to [-1, 1]. A NaN stays.
func clamp(v float32) float32 {
	switch {
	case v < -1:
		return -1
	case v > 1:
		return 1
	}
	return v
}

// Encode calls emit with the moments (h, w, 2C) of each latent frame in order: mean, then log variance. pixels fills dst (n, H,
// W, 3) with the frames first to first+n, in [-1, 1]. With bands, height, pixels and moments are of this rank's rows.
func (m *Model) Encode(be kernels.Backend, frames, height, width int, bands *stream.Bands,
	pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error {
	defer be.Scope()()
	s, d := m.encoder.start(be, m.dt, height, width, bands), m.Downscale()
	moments := make([]float32, height/d*(width/d)*2*m.ZDim)
	next := func(x kernels.Tensor, first bool) kernels.Tensor { return m.encoder.forward(s, x, first) }
	return s.Encode(frames, height, width, moments, next, pixels, emit)
}
