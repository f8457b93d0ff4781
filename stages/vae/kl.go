package vae

import (
	"latentbeam/kernels"
	"latentbeam/stages"
	klvae "latentbeam/stages/vae/kl"

	"latentbeam/stages/weights"
)

// openSoraScale is the factor on latents of the 2D autoencoder in Open-Sora, whatever its config.json says. Open-Sora's
// temporal autoencoders and denoisers use scaled latents, and LatentScale in tables says so.
const openSoraScale = 0.18215

// klConfig is the configuration of an AutoencoderKL.
type klConfig struct{ klvae.Config }

func newKL() *klConfig { return &klConfig{klvae.New()} }

func (c *klConfig) traits() Traits {
	t := Traits{title: "AutoencoderKL (2D)", Scale: c.ScalingFactor, Group: Grouping{Frames: 1, Latents: 1}}
	for i := range c.LatentChannels {
		mean, std := c.Channel(i)
		t.Mean, t.Std = append(t.Mean, mean), append(t.Std, std/c.ScalingFactor)
	}
	return t
}

// kl is AutoencoderKL. It processes a video frame by frame.
type kl struct {
	*klConfig
	dt    kernels.DType
	model *klvae.Model
}

func (c *klConfig) load(w *weights.Weights, dt kernels.DType) network { return loadKL(w, c, dt) }

func loadKL(w *weights.Weights, c *klConfig, dt kernels.DType) *kl {
	return &kl{klConfig: c, dt: dt, model: klvae.Load(w, &c.Config)}
}

// decode takes latents in the network's space, after normalize. It restores the statistics of the channels.
func (m *kl) decode(be kernels.Backend, z *stages.Array, _, micro int, emit func([]float32)) error {
	return m.decodeFrames(be, framesLast(z), micro, emit)
}

// decodeFrames decodes latents z (T, h, w, c), micro frames at a time. It modifies z.
func (m *kl) decodeFrames(be kernels.Backend, z *stages.Array, micro int, emit func([]float32)) error {
	frames, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	if !m.IsPlain() {
		for i, v := range z.Data {
			mean, std := m.Channel(i % c)
			z.Data[i] = float32(v*float32(std)) + float32(mean)
		}
	}
	size := h * m.Downscale() * w * m.Downscale() * m.OutChannels
	pixels := make([]float32, min(micro, frames)*size)
	for first := 0; first < frames; first += micro {
		n := min(micro, frames-first)
		some := z.Data[first*h*w*c:][:n*h*w*c]
		if err := compute(be, m.dt, pixels[:n*size], some, m.model.Decode, n, h, w, c); err != nil {
			return err
		}
		for i := range n {
			emit(pixels[i*size : (i+1)*size])
		}
	}
	return nil
}

func (m *kl) encode(be kernels.Backend, c Video, micro int, p *Posterior) error {
	p.Step = FrameNoise
	size := c.Height * c.Width * m.InChannels
	of := 2 * len(p.Latents.Data) / c.Frames // moments of one frame
	pixels := make([]float32, min(micro, c.Frames)*size)
	moments := make([]float32, min(micro, c.Frames)*of)
	for first := 0; first < c.Frames; first += micro {
		n := min(micro, c.Frames-first)
		if err := c.Pixels(pixels[:n*size], first, n); err != nil {
			return err
		}
		if err := compute(be, m.dt, moments[:n*of], pixels[:n*size], m.model.Encode, n, c.Height, c.Width, m.InChannels); err != nil {
			return err
		}
		p.Sample(moments, first, n)
	}
	return nil
}

// normalize subtracts the mean of each channel from the latents and divides by its deviation.
func (m *kl) normalize(_ kernels.Backend, z *stages.Array) error {
	if m.IsPlain() {
		return nil
	}
	size := len(z.Data) / m.LatentChannels
	for i, v := range z.Data {
		mean, std := m.Channel(i / size)
		z.Data[i] = (v - float32(mean)) / float32(std)
	}
	return nil
}

func (m *kl) decodeGroup(be kernels.Backend, frames, height, width, micro int) {
	d := m.Downscale()
	m.model.Decode(be, be.Alloc(m.dt, min(frames, micro), height/d, width/d, m.LatentChannels))
}

func (m *kl) encodeGroup(be kernels.Backend, frames, height, width, micro int) {
	m.model.Encode(be, be.Alloc(m.dt, min(frames, micro), height, width, m.InChannels))
}
