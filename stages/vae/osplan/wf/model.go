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

// Load reads an autoencoder by its published tensor names, for activations of type dt. Tensors that do not fit are noted
// in w. The filters of the Haar transforms, which files hold too, are not read.
func Load(c *Config, w *weights.Weights, dt kernels.DType) *Model {
	return &Model{Config: c, dt: dt, encoder: loadEncoder(w, c), decoder: loadDecoder(w, c)}
}

// Decode turns latents z (T, h, w, C), as the autoencoder itself has them, into pixels: it calls emit with n frames
// (n, H, W, 3), about in [-1, 1], at a time, in order. pixels is valid until emit returns. With bands z holds this rank's
// rows, and so do the pixels.
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

// Encode calls emit with the moments (h, w, 2C) of each latent frame in order, mean before log variance. pixels fills
// dst (n, H, W, 3) with the frames first to first+n, in [-1, 1]. With bands height is that of this rank's rows, and so are
// the pixels and the moments.
func (m *Model) Encode(be kernels.Backend, frames, height, width int, bands *stream.Bands,
	pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error {
	defer be.Scope()()
	e := m.encoder.start(be, m.dt, height, width, bands)
	moments := make([]float32, height/m.Downscale()*(width/m.Downscale())*2*m.LatentDim)
	return e.Encode(frames, height, width, moments, e.next, pixels, emit)
}
