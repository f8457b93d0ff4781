package vae

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/vae/causal"
	"latentbeam/stages/vae/posterior"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/vae/wan"
	"latentbeam/stages/vae/wf"
	"latentbeam/stages/weight"
)

// streamed is the network of an autoencoder that takes a clip by chunks of its own, whatever the micro batch. Denoisers and
// tables have its latents normalised channel by channel.
type streamed struct {
	architecture
	dt        kernels.DType
	mean, std []float64 // of the autoencoder's own latents, by channel
	most      int       // latent frames until what a device needs grows no more
	model     chunks
}

// chunks is a loaded network of one of the rooms. Frames and moments of latents come in chunks, channels last.
type chunks interface {
	// Decode decodes latents z (T, h, w, C), with bands those of this rank's rows.
	Decode(be kernels.Backend, z []float32, t, h, w int, bands *stream.Bands, emit func(pixels []float32, n int)) error
	// Encode emits the moments (h, w, 2C) of each latent frame, with bands those of this rank's rows, of which height is.
	Encode(be kernels.Backend, frames, height, width int, bands *stream.Bands,
		pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error
}

// chunkFrames is how many frames become one latent frame, but for the first.
const chunkFrames = 4

// WanConfig is the configuration of an AutoencoderKLWan, that of Wan 2.1 or of TI2V-5B of Wan 2.2.
type WanConfig struct{ wan.Config }

func newWanConfig() *WanConfig { return &WanConfig{*wan.New()} }

func (c *WanConfig) validate() error { return inConfig(c.Validate()) }

func (c *WanConfig) latents(frames, height, width int) ([]int, error) {
	return c.Latents(frames, height, width)
}

func (c *WanConfig) downscale() int { return c.Downscale() }

// scale is 1: denoisers and tables have latents that are normalised channel by channel.
func (c *WanConfig) scale() float64 { return 1 }

func (c *WanConfig) statistics() (mean, std []float64) { return c.LatentsMean, c.LatentsStd }

func (c *WanConfig) load(w *weight.Weights, dt kernels.DType) network {
	return &streamed{c, dt, c.LatentsMean, c.LatentsStd, 3, wan.Load(&c.Config, w, dt)}
}

// WFConfig is the configuration of a WFVAEModel, that of Open-Sora-Plan 1.3.
type WFConfig struct{ wf.Config }

func newWFConfig() *WFConfig { return &WFConfig{*wf.New()} }

func (c *WFConfig) validate() error { return inConfig(c.Validate()) }

func (c *WFConfig) latents(frames, height, width int) ([]int, error) {
	return c.Latents(frames, height, width)
}

func (c *WFConfig) downscale() int { return wf.Downscale }

// scale is 1: shift and scale are those of the channels.
func (c *WFConfig) scale() float64 { return 1 }

func (c *WFConfig) statistics() (mean, std []float64) {
	for _, v := range c.Scale {
		std = append(std, 1/v)
	}
	return c.Shift, std
}

func (c *WFConfig) load(w *weight.Weights, dt kernels.DType) network {
	mean, std := c.statistics()
	return &streamed{c, dt, mean, std, 3, wf.Load(&c.Config, w, dt)}
}

// CausalVAEConfig is the configuration of a CausalVAEModel, that of Open-Sora-Plan 1.2.
type CausalVAEConfig struct{ causal.Config }

func newCausalVAEConfig() *CausalVAEConfig { return &CausalVAEConfig{*causal.New()} }

func (c *CausalVAEConfig) validate() error { return inConfig(c.Validate()) }

func (c *CausalVAEConfig) latents(frames, height, width int) ([]int, error) {
	return c.Latents(frames, height, width)
}

func (c *CausalVAEConfig) downscale() int { return c.Downscale() }

// scale is what the reference multiplies latents with; its config.json does not say it.
func (c *CausalVAEConfig) scale() float64 { return causalScale }

func (c *CausalVAEConfig) statistics() (mean, std []float64) { return scaled(c.EmbedDim, causalScale) }

// causalScale times a latent of Open-Sora-Plan 1.2 is what its denoiser sees.
const causalScale = 0.18215

// scaled are the statistics of so many channels with one factor between raw latents and those of the denoiser.
func scaled(channels int, factor float64) (mean, std []float64) {
	return make([]float64, channels), slices.Repeat([]float64{1 / factor}, channels)
}

func (c *CausalVAEConfig) load(w *weight.Weights, dt kernels.DType) network {
	one := slices.Repeat([]float64{1}, c.EmbedDim)
	return &streamed{c, dt, make([]float64, c.EmbedDim), one, causal.GroupLatents, causal.Load(&c.Config, w, dt)}
}

// inConfig says where what is wrong stands.
func inConfig(err error) error {
	if err != nil {
		return fmt.Errorf("vae config.json: %w", err)
	}
	return nil
}

// normalize takes the mean of their channel off the latents of the autoencoder, and divides them by its deviation.
func (m *streamed) normalize(_ kernels.Backend, z *stages.Array) error {
	size := len(z.Data) / len(m.mean)
	for ch, mean := range m.mean {
		for i, v := range z.Data[ch*size:][:size] {
			z.Data[ch*size+i] = weight.Round(m.dt, (v-float32(mean))/float32(m.std[ch]))
		}
	}
	return nil
}

// restore is the inverse of normalize, for latents (..., C).
func (m *streamed) restore(z []float32) {
	for i, v := range z {
		ch := i % len(m.mean)
		z[i] = weight.Round(m.dt, float32(v*float32(m.std[ch]))+float32(m.mean[ch]))
	}
}

func (m *streamed) decode(be kernels.Backend, z *stages.Array, _, _ int, emit func([]float32)) error {
	return m.decodeRows(be, z, nil, emit)
}

// decodeRows decodes latents z (C, T', h, w), with bands those of this rank's rows.
func (m *streamed) decodeRows(be kernels.Backend, z *stages.Array, bands *stream.Bands, emit func([]float32)) error {
	z = framesLast(z) // (T', h, w, C)
	m.restore(z.Data)
	return m.model.Decode(be, z.Data, z.Shape[0], z.Shape[1], z.Shape[2], bands, func(pixels []float32, n int) {
		size := len(pixels) / n
		for i := range n {
			emit(pixels[i*size : (i+1)*size])
		}
	})
}

func (m *streamed) encode(be kernels.Backend, c clip, _ int, draw Noise) (*stages.Array, error) {
	return m.latentsOf(c, draw, func(emit func(moments []float32)) error {
		return m.model.Encode(be, c.frames, c.height, c.width, nil, c.pixels, emit)
	})
}

// latentsOf returns the latents (C, T', h, w) of a clip, of whose latent frames all emits the moments (h, w, 2C) in order.
func (m *streamed) latentsOf(c clip, draw Noise, all func(emit func(moments []float32)) error) (*stages.Array, error) {
	shape, err := m.latents(c.frames, c.height, c.width)
	if err != nil {
		return nil, err
	}
	ch, t, h, w := shape[0], shape[1], shape[2], shape[3]
	p := posterior.Posterior{DType: m.dt, Frames: t, Height: h, Width: w, Channels: ch, Draw: draw, Step: posterior.VideoNoise}
	out := stages.NewArray(t, h, w, ch) // (T', h, w, C)
	i := 0
	err = all(func(moments []float32) {
		p.Sample(out.Data[i*h*w*ch:], moments, i, 1)
		i++
	})
	if err != nil {
		return nil, err
	}
	return channelsFirst(out), nil
}

// decodeGroup and encodeGroup take the first chunks of a clip, until one is as large as any.
func (m *streamed) decodeGroup(be kernels.Backend, frames, height, width, _ int) {
	t, h, w := min(m.most, (frames-1)/chunkFrames+1), height/m.downscale(), width/m.downscale()
	_ = m.model.Decode(be, make([]float32, t*h*w*len(m.mean)), t, h, w, nil, func([]float32, int) {})
}

func (m *streamed) encodeGroup(be kernels.Backend, frames, height, width, _ int) {
	_ = m.model.Encode(be, min(frames, 1+chunkFrames*(m.most-1)), height, width, nil,
		func([]float32, int, int) error { return nil }, func([]float32) {})
}
