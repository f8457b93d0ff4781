package vae

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/wan"
)

// WanConfig is the configuration of an AutoencoderKLWan, that of Wan 2.1 or of TI2V-5B of Wan 2.2.
type WanConfig struct{ wan.Config }

func newWanConfig() *WanConfig { return &WanConfig{*wan.New()} }

func (c *WanConfig) validate() error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("vae config.json: %w", err)
	}
	return nil
}

func (c *WanConfig) latents(frames, height, width int) ([]int, error) {
	return c.Latents(frames, height, width)
}

func (c *WanConfig) downscale() int { return c.Downscale() }

// scale is 1: denoisers and tables have latents that are normalised channel by channel, see normalize.
func (c *WanConfig) scale() float64 { return 1 }

func (c *WanConfig) load(w *nn.Weights, dt kernels.DType) network {
	return &wanNetwork{WanConfig: c, dt: dt, model: wan.Load(&c.Config, w, dt)}
}

// wanNetwork is a loaded AutoencoderKLWan. It goes through a clip by latent frames, whatever the micro batch.
type wanNetwork struct {
	*WanConfig
	dt    kernels.DType
	model *wan.Model
}

// normalize makes of latents (..., C) of the autoencoder those of denoisers: less the mean of their channel, over its
// deviation.
func (m *wanNetwork) normalize(z []float32) {
	for i, v := range z {
		ch := i % m.ZDim
		z[i] = nn.Round(m.dt, (v-float32(m.LatentsMean[ch]))/float32(m.LatentsStd[ch]))
	}
}

// restore is the inverse of normalize.
func (m *wanNetwork) restore(z []float32) {
	for i, v := range z {
		ch := i % m.ZDim
		z[i] = nn.Round(m.dt, float32(v*float32(m.LatentsStd[ch]))+float32(m.LatentsMean[ch]))
	}
}

func (m *wanNetwork) decode(be kernels.Backend, z *stages.Array, _, _ int, emit func([]float32)) error {
	return m.decodeRows(be, z, nil, emit)
}

// decodeRows decodes latents z (C, T', h, w), with bands those of this rank's rows.
func (m *wanNetwork) decodeRows(be kernels.Backend, z *stages.Array, bands *wan.Bands, emit func([]float32)) error {
	z = framesLast(z) // (T', h, w, C)
	m.restore(z.Data)
	return m.model.Decode(be, z.Data, z.Shape[0], z.Shape[1], z.Shape[2], bands, func(pixels []float32, n int) {
		size := len(pixels) / n
		for i := range n {
			emit(pixels[i*size : (i+1)*size])
		}
	})
}

func (m *wanNetwork) encode(be kernels.Backend, c clip, _ int, draw Noise) (*stages.Array, error) {
	shape, err := m.latents(c.frames, c.height, c.width)
	if err != nil {
		return nil, err
	}
	ch, t, h, w := shape[0], shape[1], shape[2], shape[3]
	p := posterior{dt: m.dt, frames: t, height: h, width: w, channels: ch, draw: draw, step: videoNoise}
	out := stages.NewArray(t, h, w, ch) // (T', h, w, C)
	i := 0
	err = m.model.Encode(be, c.frames, c.height, c.width, c.pixels, func(moments []float32) {
		p.sample(out.Data[i*h*w*ch:], moments, i, 1)
		i++
	})
	if err != nil {
		return nil, err
	}
	m.normalize(out.Data)
	return channelsFirst(out), nil
}

// decodeGroup and encodeGroup take the first two chunks of a clip: others need no more.
func (m *wanNetwork) decodeGroup(be kernels.Backend, frames, height, width, _ int) {
	t, h, w := min(2, (frames-1)/wan.Factor+1), height/m.downscale(), width/m.downscale()
	_ = m.model.Decode(be, make([]float32, t*h*w*m.ZDim), t, h, w, nil, func([]float32, int) {})
}

func (m *wanNetwork) encodeGroup(be kernels.Backend, frames, height, width, _ int) {
	_ = m.model.Encode(be, min(frames, 1+wan.Factor), height, width,
		func([]float32, int, int) error { return nil }, func([]float32) {})
}
