package vae

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/vae/opensora/v13"

	"latentbeam/stages/weights"
)

// openSora13Config is the configuration of the autoencoder of Open-Sora 1.3.
type openSora13Config struct{ v13.Config }

func newOpenSora13() *openSora13Config { return &openSora13Config{*v13.New()} }

func (c *openSora13Config) traits() Traits {
	n := c.MicroFrameSize
	return Traits{title: "autoencoder of Open-Sora 1.3 (causal 3D)", Scale: 1,
		Group: Grouping{Frames: n, Latents: c.GroupLatents(n), Overlap: n - c.Stride(), Joined: true}}
}

// openSora13 is the autoencoder of Open-Sora 1.3. It processes groups of 17 frames.
type openSora13 struct {
	*openSora13Config
	dt    kernels.DType
	model *v13.Model
}

func (c *openSora13Config) load(w *weights.Weights, dt kernels.DType) network {
	return &openSora13{openSora13Config: c, dt: dt, model: v13.Load(w, &c.Config)}
}

// decode decodes group by group. With overlap it keeps the last frame of a group and averages it with the first frame of the
// next group.
func (m *openSora13) decode(be kernels.Backend, z *stages.Array, frames, _ int, emit func([]float32)) error {
	z = framesLast(z) // (T', h, w, z)
	t, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	for i, v := range z.Data {
		z.Data[i] = m.Restore(m.dt, v, i%c, i/(h*w*c))
	}
	per := min(t, m.GroupLatents(m.MicroFrameSize))
	n := min(frames, m.MicroFrameSize)
	size := h * m.Downscale() * w * m.Downscale() * m.Decoder.OutCh
	pixels := make([]float32, n*size)
	var waiting []float32
	for first := 0; first < t; first += per {
		if err := compute(be, m.dt, pixels, z.Data[first*h*w*c:][:per*h*w*c], m.model.DecodeGroup, 1, per, h, w, c); err != nil {
			return err
		}
		for i := range n {
			frame := pixels[i*size : (i+1)*size]
			switch {
			case i == 0 && waiting != nil:
				AverageFrames(m.dt, waiting, frame)
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

// encode encodes group by group. With overlap a group starts with the last frame of the group before.
func (m *openSora13) encode(be kernels.Backend, c Video, _ int, p *Posterior) error {
	p.Step = VideoNoise
	n := min(c.Frames, m.MicroFrameSize)
	per, t := m.GroupLatents(n), p.Latents.Shape[1]
	pixels := make([]float32, n*c.Height*c.Width*m.Encoder.InChannels)
	moments := make([]float32, 2*len(p.Latents.Data)/t*per)
	for group := range t / per {
		if err := c.Pixels(pixels, group*m.Stride(), n); err != nil {
			return err
		}
		if err := compute(be, m.dt, moments, pixels, m.model.EncodeGroup, 1, n, c.Height, c.Width, m.Encoder.InChannels); err != nil {
			return err
		}
		p.Sample(moments, group*per, per)
	}
	return nil
}

func (m *openSora13) normalize(_ kernels.Backend, z *stages.Array) error {
	t, area := z.Shape[1], z.Shape[2]*z.Shape[3]
	for i, v := range z.Data {
		z.Data[i] = m.Normalize(m.dt, v, i/(t*area), i/area%t)
	}
	return nil
}

func (m *openSora13) decodeGroup(be kernels.Backend, frames, height, width, _ int) {
	t := m.GroupLatents(min(frames, m.MicroFrameSize))
	m.model.DecodeGroup(be, be.Alloc(m.dt, 1, t, height/m.Downscale(), width/m.Downscale(), m.Decoder.ZChannels))
}

func (m *openSora13) encodeGroup(be kernels.Backend, frames, height, width, _ int) {
	m.model.EncodeGroup(be, be.Alloc(m.dt, 1, min(frames, m.MicroFrameSize), height, width, m.Encoder.InChannels))
}
