package wf

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
// w. It does not read the filters of the Haar transforms, which files contain too.
func Load(c *Config, w *weights.Weights, dt kernels.DType) *Model {
	return &Model{Config: c, dt: dt, encoder: loadEncoder(w, c), decoder: loadDecoder(w, c)}
}

// Decode decodes latents z (T, h, w, C) in the autoencoder's own space to pixels. It calls emit with n frames (n, H, W, 3) at a
// time, in order, with values in about [-1, 1]. pixels is valid until emit returns. With bands, z and the pixels are this
// rank's rows.
func (m *Model) Decode(be kernels.Backend, z []float32, t, h, w int, bands *stream.Bands,
	emit func(pixels []float32, n int)) error {
	defer be.Scope()()
	d := m.decoder.start(be, m.dt, h, w, bands)
	size := h * w * m.LatentDim
	pixels := make([]float32, stream.Factor*h*m.Downscale()*w*m.Downscale()*colors)
	for i := range t {
		n, frames, err := d.Step(pixels, func() kernels.Tensor { return d.next(d.Chunk(z[i*size:][:size], 1, 1, h, w, m.LatentDim)) })
		if err != nil {
			return err
		}
		emit(pixels[:n], frames)
	}
	if t == 1 {
		return nil
	}
	n, frames, err := d.Step(pixels, d.last)
	if err == nil {
		emit(pixels[:n], frames)
	}
	return err
}

// Encode calls emit with the moments (h, w, 2C) of each latent frame in order: mean, then log variance. pixels fills dst (n, H,
// W, 3) with the frames first to first+n, in [-1, 1]. With bands, height, pixels and moments are of this rank's rows.
func (m *Model) Encode(be kernels.Backend, frames, height, width int, bands *stream.Bands,
	pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error {
	defer be.Scope()()
	e := m.encoder.start(be, m.dt, height, width, bands)
	moments := make([]float32, height/m.Downscale()*(width/m.Downscale())*2*m.LatentDim)
	return e.Encode(frames, height, width, moments, e.next, pixels, emit)
}
