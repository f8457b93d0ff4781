package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weight"
)

// Model is a loaded autoencoder. It is read-only and may serve any backend of its device.
type Model struct {
	*Config
	dt      kernels.DType
	encoder encoder
	decoder decoder
}

// Load reads an autoencoder by its published tensor names, for activations of type dt. Tensors that do not fit are noted
// in w.
func Load(c *Config, w *weight.Weights, dt kernels.DType) *Model {
	return &Model{Config: c, dt: dt, encoder: loadEncoder(w, c), decoder: loadDecoder(w, c)}
}

// Decode turns latents z (T, h, w, C), as the autoencoder itself has them, into pixels: it calls emit with n frames
// (n, H, W, 3) in [-1, 1] at a time, in order, one first and then four. pixels is valid until emit returns. With bands z
// holds this rank's rows, and so do the pixels.
func (m *Model) Decode(be kernels.Backend, z []float32, t, h, w int, bands *stream.Bands,
	emit func(pixels []float32, n int)) error {
	defer be.Scope()()
	s := m.decoder.begin(be, m.dt, h, w, bands)
	d := m.Downscale()
	size := h * d * w * d * 3
	pixels := make([]float32, frames(t-1)*size)
	for i := range t {
		n := frames(i)
		s.Last = i == t-1
		if err := m.decodeOne(s, pixels[:n*size], z[i*h*w*m.ZDim:][:h*w*m.ZDim], h, w, i == 0); err != nil {
			return err
		}
		for j, v := range pixels[:n*size] {
			pixels[j] = clamp(v)
		}
		emit(pixels[:n*size], n)
	}
	return nil
}

// frames returns how many frames latent frame i stands for.
func frames(i int) int {
	if i == 0 {
		return 1
	}
	return Factor
}

// clamp keeps what is not a number.
func clamp(v float32) float32 {
	switch {
	case v < -1:
		return -1
	case v > 1:
		return 1
	}
	return v
}

func (m *Model) decodeOne(s *stream.Stream, pixels, z []float32, h, w int, first bool) error {
	defer s.Scope()()
	x := s.Alloc(m.dt, 1, 1, h, w, m.ZDim) // (1, 1, h, w, z)
	s.Upload(x, z)
	y := m.decoder.forward(s, x, first)
	if s.Err != nil {
		return s.Err
	}
	return s.Download(pixels, y)
}

// Encode calls emit with the moments (h, w, 2C) of each latent frame in order, mean before log variance. pixels fills
// dst (n, H, W, 3) with the frames first to first+n, in [-1, 1]. With bands height is that of this rank's rows, and so are
// the pixels and the moments.
func (m *Model) Encode(be kernels.Backend, frameCount, height, width int, bands *stream.Bands,
	pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error {
	defer be.Scope()()
	shape, err := m.Latents(frameCount, height, width)
	if err != nil {
		return err
	}
	s := m.encoder.begin(be, m.dt, height, width, bands)
	moments := make([]float32, shape[2]*shape[3]*2*m.ZDim)
	buffer := make([]float32, min(frameCount, Factor)*height*width*3)
	for i := range shape[1] {
		n := frames(i)
		x := buffer[:n*height*width*3]
		s.Last = i == shape[1]-1
		if err := pixels(x, Factor*i+1-n, n); err != nil {
			return err
		}
		if err := m.encodeOne(s, moments, x, n, height, width); err != nil {
			return err
		}
		emit(moments)
	}
	return nil
}

func (m *Model) encodeOne(s *stream.Stream, moments, pixels []float32, n, height, width int) error {
	defer s.Scope()()
	x := s.Alloc(m.dt, 1, n, height, width, 3) // (1, T, H, W, 3)
	s.Upload(x, pixels)
	y := m.encoder.forward(s, x, n == 1)
	if s.Err != nil {
		return s.Err
	}
	return s.Download(moments, y)
}
