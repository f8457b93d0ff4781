package vae

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	klvae "latentbeam/stages/vae/kl"
	"latentbeam/stages/vae/posterior"
	"latentbeam/stages/weight"
)

// openSoraScale times a latent of the 2D autoencoder is what Open-Sora's temporal autoencoders see, whatever its config.json
// says. Its denoisers see that too, and their latents say so (LatentScale).
const openSoraScale = 0.18215

// KLConfig is the configuration of an AutoencoderKL.
type KLConfig struct{ klvae.Config }

func newKLConfig() KLConfig { return KLConfig{klvae.New()} }

func (c *KLConfig) validate() error { return c.Validate() }

func (c *KLConfig) downscale() int { return c.Downscale() }

// kl is AutoencoderKL, which takes a video frame by frame.
type kl struct {
	*KLConfig
	dt    kernels.DType
	model *klvae.Model
}

func (c *KLConfig) load(w *weight.Weights, dt kernels.DType) network { return loadKL(w, c, dt) }

func loadKL(w *weight.Weights, c *KLConfig, dt kernels.DType) *kl {
	return &kl{KLConfig: c, dt: dt, model: klvae.Load(w, &c.Config)}
}

func (c *KLConfig) latents(frames, height, width int) ([]int, error) {
	d := c.downscale()
	return []int{c.LatentChannels, frames, height / d, width / d}, nil
}

func (c *KLConfig) scale() float64 { return c.ScalingFactor }

func (c *KLConfig) statistics() (mean, std []float64) {
	for i := range c.LatentChannels {
		m, s := c.Channel(i)
		mean, std = append(mean, m), append(std, s/c.scale())
	}
	return mean, std
}

// decode takes latents as the network has them, divided by the scaling factor; the statistics of their channels are still
// to be undone.
func (m *kl) decode(be kernels.Backend, z *stages.Array, frames, micro int, emit func([]float32)) error {
	return m.decodeFrames(be, framesLast(z), micro, emit)
}

// decodeFrames decodes latents z (T, h, w, c), micro frames at a time.
func (m *kl) decodeFrames(be kernels.Backend, z *stages.Array, micro int, emit func([]float32)) error {
	frames, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	size := h * m.downscale() * w * m.downscale() * m.OutChannels
	pixels := make([]float32, min(micro, frames)*size)
	for first := 0; first < frames; first += micro {
		n := min(micro, frames-first)
		if err := m.decodeSome(be, pixels[:n*size], z.Data[first*h*w*c:][:n*h*w*c], n, h, w); err != nil {
			return err
		}
		for i := range n {
			emit(pixels[i*size : (i+1)*size])
		}
	}
	return nil
}

// decodeSome computes pixels (n, H, W, 3) of latents (n, h, w, c).
func (m *kl) decodeSome(be kernels.Backend, pixels, latents []float32, n, h, w int) error {
	defer be.Scope()()
	if !m.IsPlain() {
		latents = slices.Clone(latents)
		for i, v := range latents {
			mean, std := m.Channel(i % m.LatentChannels)
			latents[i] = float32(v*float32(std)) + float32(mean)
		}
	}
	z := be.Alloc(m.dt, n, h, w, m.LatentChannels) // (n, h, w, c)
	be.Upload(z, latents)
	return be.Download(pixels, m.model.Decode(be, z))
}

// encode draws the latents of every frame.
func (m *kl) encode(be kernels.Backend, c clip, micro int, draw Noise) (*stages.Array, error) {
	z, err := m.encodeFrames(be, c, micro, draw)
	if err != nil {
		return nil, err
	}
	return channelsFirst(z), nil
}

// encodeFrames returns the latents (T, h, w, c) of a clip, raw.
func (m *kl) encodeFrames(be kernels.Backend, c clip, micro int, draw Noise) (*stages.Array, error) {
	d := m.downscale()
	p := posterior.Posterior{DType: m.dt, Frames: c.frames, Height: c.height / d, Width: c.width / d,
		Channels: m.LatentChannels, Draw: draw, Step: posterior.FrameNoise}
	out := stages.NewArray(c.frames, p.Height, p.Width, p.Channels) // (T, h, w, c)
	pixels := make([]float32, min(micro, c.frames)*c.height*c.width*m.InChannels)
	moments := make([]float32, min(micro, c.frames)*p.Height*p.Width*2*p.Channels)
	for first := 0; first < c.frames; first += micro {
		n := min(micro, c.frames-first)
		x := pixels[:n*c.height*c.width*m.InChannels]
		if err := c.pixels(x, first, n); err != nil {
			return nil, err
		}
		mo := moments[:n*p.Height*p.Width*2*p.Channels]
		if err := m.encodeSome(be, mo, x, n, c.height, c.width); err != nil {
			return nil, err
		}
		p.Sample(out.Data[first*p.Height*p.Width*p.Channels:], mo, first, n)
	}
	return out, nil
}

func (m *kl) normalize(_ kernels.Backend, z *stages.Array) error {
	size := len(z.Data) / m.LatentChannels
	m.shift(z.Data, func(i int) int { return i / size })
	return nil
}

// shift takes the mean of their channel off latents, and divides them by its deviation.
func (m *kl) shift(z []float32, channel func(i int) int) {
	if m.IsPlain() {
		return
	}
	for i, v := range z {
		mean, std := m.Channel(channel(i))
		z[i] = (v - float32(mean)) / float32(std)
	}
}

// encodeSome computes moments (n, h, w, 2c) of pixels (n, H, W, 3).
func (m *kl) encodeSome(be kernels.Backend, moments, pixels []float32, n, height, width int) error {
	defer be.Scope()()
	x := be.Alloc(m.dt, n, height, width, m.InChannels) // (n, H, W, 3)
	be.Upload(x, pixels)
	return be.Download(moments, m.model.Encode(be, x))
}

func (m *kl) decodeGroup(be kernels.Backend, frames, height, width, micro int) {
	d := m.downscale()
	m.model.Decode(be, be.Alloc(m.dt, min(frames, micro), height/d, width/d, m.LatentChannels))
}

func (m *kl) encodeGroup(be kernels.Backend, frames, height, width, micro int) {
	m.model.Encode(be, be.Alloc(m.dt, min(frames, micro), height, width, m.InChannels))
}
