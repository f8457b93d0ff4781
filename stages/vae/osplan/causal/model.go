package causal

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
// time, in order, with values in about [-1, 1]. pixels is valid until emit returns. Ranks cannot share rows, so bands must be
// nil.
func (m *Model) Decode(be kernels.Backend, z []float32, t, h, w int, _ *stream.Bands,
	emit func(pixels []float32, n int)) error {
	size, d := h*w*m.EmbedDim, m.Downscale()
	frame := h * d * w * d * 3
	pixels := make([]float32, (stream.Factor*(min(t, GroupLatents)-1)+1)*frame)
	for first := 0; first == 0 || first < t-1; first += GroupLatents - 1 {
		n := min(GroupLatents, t-first)
		frames := stream.Factor*(n-1) + 1
		if err := m.decodeGroup(be, pixels[:frames*frame], z[first*size:][:n*size], n, h, w); err != nil {
			return err
		}
		if first == 0 {
			emit(pixels[:frames*frame], frames)
		} else {
			emit(pixels[frame:frames*frame], frames-1)
		}
	}
	return nil
}

func (m *Model) decodeGroup(be kernels.Backend, pixels, z []float32, t, h, w int) error {
	defer be.Scope()()
	x := be.Alloc(m.dt, 1, t, h, w, m.EmbedDim) // (1, T', h, w, e)
	be.Upload(x, z)
	return be.Download(pixels, m.decoder.forward(be, x))
}

// Encode calls emit with the moments (h, w, 2C) of each latent frame in order: mean, then log variance. pixels fills dst (n, H,
// W, 3) with the frames first to first+n, in [-1, 1]; the last frame of a group is requested again. Ranks cannot share rows, so
// bands must be nil.
func (m *Model) Encode(be kernels.Backend, frames, height, width int, _ *stream.Bands,
	pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error {
	most := min(frames, GroupFrames)
	frame, moment := height*width*3, height/m.Downscale()*(width/m.Downscale())*2*m.EmbedDim
	buffer, moments := make([]float32, most*frame), make([]float32, ((most-1)/stream.Factor+1)*moment)
	for first := 0; first == 0 || first < frames-1; first += GroupFrames - 1 {
		n := min(GroupFrames, frames-first)
		t := (n-1)/stream.Factor + 1
		if err := pixels(buffer[:n*frame], first, n); err != nil {
			return err
		}
		if err := m.encodeGroup(be, moments[:t*moment], buffer[:n*frame], n, height, width); err != nil {
			return err
		}
		for i := range t {
			if i > 0 || first == 0 {
				emit(moments[i*moment : (i+1)*moment])
			}
		}
	}
	return nil
}

func (m *Model) encodeGroup(be kernels.Backend, moments, pixels []float32, n, height, width int) error {
	defer be.Scope()()
	x := be.Alloc(m.dt, 1, n, height, width, 3) // (1, T, H, W, 3)
	be.Upload(x, pixels)
	return be.Download(moments, m.encoder.forward(be, x))
}
