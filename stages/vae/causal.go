package vae

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/vae/causal"
	"latentbeam/stages/vae/posterior"
	"latentbeam/stages/weight"
)

// CausalConfig is the configuration of the autoencoder of Open-Sora 1.3.
type CausalConfig struct{ causal.OpenSora }

func newCausalConfig() *CausalConfig { return &CausalConfig{*causal.NewOpenSora()} }

func (c *CausalConfig) validate() error { return c.Validate() }

func (c *CausalConfig) latents(frames, height, width int) ([]int, error) {
	return c.Latents(frames, height, width)
}

func (c *CausalConfig) downscale() int { return c.Downscale() }
func (c *CausalConfig) scale() float64 { return 1 }

func (c *CausalConfig) statistics() (mean, std []float64) { return nil, nil }

// grouped is the autoencoder of Open-Sora 1.3, which takes groups of 17 frames.
type grouped struct {
	*CausalConfig
	dt    kernels.DType
	model *causal.OpenSoraModel
}

func (c *CausalConfig) load(w *weight.Weights, dt kernels.DType) network {
	return &grouped{CausalConfig: c, dt: dt, model: causal.LoadOpenSora(w, &c.OpenSora)}
}

// decode decodes group by group. With overlap the last frame of a group waits for the first of the next, and
// their mean is the frame.
func (m *grouped) decode(be kernels.Backend, z *stages.Array, frames, _ int, emit func([]float32)) error {
	z = framesLast(z) // (T', h, w, z)
	t, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	for i, v := range z.Data {
		z.Data[i] = m.Restore(m.dt, v, i%c, i/(h*w*c))
	}
	per := min(t, m.GroupLatents(m.MicroFrameSize))
	n := min(frames, m.MicroFrameSize)
	size := h * m.downscale() * w * m.downscale() * m.Decoder.OutCh
	pixels := make([]float32, n*size)
	var waiting []float32
	for first := 0; first < t; first += per {
		if err := m.decodeOne(be, pixels, z.Data[first*h*w*c:][:per*h*w*c], per, h, w); err != nil {
			return err
		}
		for i := range n {
			frame := pixels[i*size : (i+1)*size]
			switch {
			case i == 0 && waiting != nil:
				meet(m.dt, waiting, frame)
				emit(waiting)
			case i == n-1 && m.TemporalOverlap && first+per < t:
				waiting = slices.Clone(frame)
			default:
				emit(frame)
			}
		}
	}
	return nil
}

// meet makes of the last frame of a group and the first of the next the one frame that they are.
func meet(dt kernels.DType, last, first []float32) {
	for i, v := range first {
		last[i] = weight.Round(dt, last[i]+v) / 2
	}
}

// decodeOne computes the pixels (n, H, W, 3) of the latents (t, h, w, z) of one group.
func (m *grouped) decodeOne(be kernels.Backend, pixels, latents []float32, t, h, w int) error {
	defer be.Scope()()
	z := be.Alloc(m.dt, 1, t, h, w, m.Decoder.ZChannels) // (1, T', h, w, z)
	be.Upload(z, latents)
	return be.Download(pixels, m.model.DecodeGroup(be, z))
}

// encode encodes group by group; with overlap a group begins with the last frame of the one before.
func (m *grouped) encode(be kernels.Backend, c clip, _ int, draw Noise) (*stages.Array, error) {
	shape, err := m.latents(c.frames, c.height, c.width)
	if err != nil {
		return nil, err
	}
	ch, t, h, w := shape[0], shape[1], shape[2], shape[3]
	p := posterior.Posterior{DType: m.dt, Frames: t, Height: h, Width: w, Channels: ch, Draw: draw, Step: posterior.VideoNoise}
	out := stages.NewArray(t, h, w, ch) // (T', h, w, z)
	n := min(c.frames, m.MicroFrameSize)
	per := m.GroupLatents(n)
	pixels := make([]float32, n*c.height*c.width*m.Encoder.InChannels)
	moments := make([]float32, per*h*w*2*ch)
	for group := range t / per {
		if err := c.pixels(pixels, group*m.Stride(), n); err != nil {
			return nil, err
		}
		if err := m.encodeOne(be, moments, pixels, n, c.height, c.width); err != nil {
			return nil, err
		}
		p.Sample(out.Data[group*per*h*w*ch:], moments, group*per, per)
	}
	return channelsFirst(out), nil
}

func (m *grouped) normalize(_ kernels.Backend, z *stages.Array) error {
	t, area := z.Shape[1], z.Shape[2]*z.Shape[3]
	for i, v := range z.Data {
		z.Data[i] = m.Normalize(m.dt, v, i/(t*area), i/area%t)
	}
	return nil
}

// encodeOne computes the moments (T', h, w, 2z) of the pixels (n, H, W, 3) of one group.
func (m *grouped) encodeOne(be kernels.Backend, moments, pixels []float32, n, height, width int) error {
	defer be.Scope()()
	x := be.Alloc(m.dt, 1, n, height, width, m.Encoder.InChannels) // (1, T, H, W, 3)
	be.Upload(x, pixels)
	return be.Download(moments, m.model.EncodeGroup(be, x))
}

func (m *grouped) decodeGroup(be kernels.Backend, frames, height, width, _ int) {
	t := m.GroupLatents(min(frames, m.MicroFrameSize))
	m.model.DecodeGroup(be, be.Alloc(m.dt, 1, t, height/m.downscale(), width/m.downscale(), m.Decoder.ZChannels))
}

func (m *grouped) encodeGroup(be kernels.Backend, frames, height, width, _ int) {
	m.model.EncodeGroup(be, be.Alloc(m.dt, 1, min(frames, m.MicroFrameSize), height, width, m.Encoder.InChannels))
}
