package vae

import (
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"

	"latentbeam/stages/vae/opensora/temporal"
	"latentbeam/stages/weights"
)

// openSora12Config describes the VideoAutoencoderPipeline of Open-Sora 1.2: a 2D autoencoder for every frame and a temporal
// autoencoder for groups of frames.
type openSora12Config struct {
	VAE2D       klConfig        `json:"vae_2d"`
	VAETemporal temporal.Config `json:"vae_temporal"`
	// MicroFrameSize is the number of frames in a group: 17 in the published model. Groups do not depend on each other, so it
	// changes values.
	MicroFrameSize int      `json:"micro_frame_size"`
	Shift          channels `json:"shift"`
	ScaleBy        channels `json:"scale"`
}

// channels has a number for each latent channel. In JSON a single number applies to all channels.
type channels []float32

// UnmarshalJSON reads a list or a single number.
func (c *channels) UnmarshalJSON(data []byte) error {
	var one float32
	if err := json.Unmarshal(data, &one); err == nil {
		*c = channels{one}
		return nil
	}
	return json.Unmarshal(data, (*[]float32)(c))
}

// at returns the number of channel i.
func (c channels) at(i int) float32 { return c[min(i, len(c)-1)] }

// newOpenSora12 returns the configuration that OpenSoraVAE_V1_2 builds. Its config.json names the 2D autoencoder, from Stable
// Diffusion XL, but does not describe it.
func newOpenSora12() *openSora12Config {
	c := &openSora12Config{VAE2D: *newKL(), VAETemporal: temporal.New(), MicroFrameSize: 17,
		Shift: channels{0}, ScaleBy: channels{1}}
	c.VAE2D.BlockOutChannels, c.VAE2D.LayersPerBlock = []int{128, 256, 512, 512}, 2
	return c
}

// Validate checks the values of config.json. Errors name the field.
func (c *openSora12Config) Validate() error {
	if err := c.VAE2D.Validate(); err != nil {
		return err
	}
	if err := c.VAETemporal.Validate(); err != nil {
		return err
	}
	z := c.VAETemporal.EmbedDim
	switch {
	case c.VAE2D.LatentChannels != c.VAETemporal.InOutChannels:
		return fmt.Errorf("the 2D autoencoder has %d latent channels, the temporal one takes %d",
			c.VAE2D.LatentChannels, c.VAETemporal.InOutChannels)
	case c.MicroFrameSize < 1 || c.MicroFrameSize > maxGroup:
		return fmt.Errorf("micro_frame_size is %d, must be 1 to %d", c.MicroFrameSize, maxGroup)
	case len(c.Shift) != z && len(c.Shift) != 1, len(c.ScaleBy) != z && len(c.ScaleBy) != 1:
		return fmt.Errorf("shift has %d numbers and scale %d, must be %d, the latent channels",
			len(c.Shift), len(c.ScaleBy), z)
	}
	return nil
}

// maxGroup limits the number of frames in a group.
const maxGroup = 1 << 12

// Downscale returns how many pixels a latent position spans in each direction.
func (c *openSora12Config) Downscale() int { return c.VAE2D.Downscale() }

// traits has no statistics, because the weights file has them and they win over config.json.
func (c *openSora12Config) traits() Traits {
	return Traits{title: "autoencoder of Open-Sora 1.2 (2D and temporal)", Scale: 1,
		Group: Grouping{Frames: c.MicroFrameSize, Latents: c.latentFrames(c.MicroFrameSize)}}
}

// statistics computes mean and deviation of each channel from shift and scale in the weights file.
func (c *openSora12Config) statistics(shift, scale channels) (mean, std []float64) {
	if len(shift) == 0 || len(scale) == 0 {
		return nil, nil
	}
	for i := range c.VAETemporal.EmbedDim {
		mean, std = append(mean, float64(shift.at(i))), append(std, float64(scale.at(i)))
	}
	return mean, std
}

// Latents returns the shape of the latents of a clip. Every whole group of 17 frames becomes 5 latent frames, the remaining n
// frames become n/4 rounded up.
func (c *openSora12Config) Latents(frames, height, width int) ([]int, error) {
	d := c.Downscale()
	return []int{c.VAETemporal.EmbedDim, c.latentFrames(frames), height / d, width / d}, nil
}

func (c *openSora12Config) latentFrames(frames int) int {
	of := func(n int) int { return (n + c.VAETemporal.Front(n)) / c.VAETemporal.Factor() }
	return frames/c.MicroFrameSize*of(c.MicroFrameSize) + of(frames%c.MicroFrameSize)
}

// openSora12 is VideoAutoencoderPipeline.
type openSora12 struct {
	*openSora12Config
	dt           kernels.DType
	spatial      *kl
	temporal     temporal.Model
	shift, times kernels.Tensor // (1, e, 1, 1, 1); the weights file wins over config.json
}

func (c *openSora12Config) load(w *weights.Weights, dt kernels.DType) network {
	p := &openSora12{openSora12Config: c, dt: dt,
		spatial:  loadKL(w.Sub("spatial_vae.module"), &c.VAE2D, dt),
		temporal: temporal.Load(w.Sub("temporal_vae"), &c.VAETemporal)}
	number := func(name string, of channels) kernels.Tensor {
		if len(of) == 1 {
			return w.Tensor(name)
		}
		return w.Tensor(name, 1, len(of), 1, 1, 1)
	}
	p.shift, p.times = number("shift", c.Shift), number("scale", c.ScaleBy)
	return p
}

// normalisation returns the shift and scale of the latent channels.
func (p *openSora12) normalisation(be kernels.Backend) (shift, times channels, err error) {
	shift, times = make(channels, len(p.Shift)), make(channels, len(p.ScaleBy))
	if err := be.Download(shift, p.shift); err != nil {
		return nil, nil, err
	}
	return shift, times, be.Download(times, p.times)
}

// decode computes z scale + shift, then for each group of latent frames the temporal decoder, and for each frame the 2D
// decoder.
func (p *openSora12) decode(
	be kernels.Backend, z *stages.Array, frames, micro int, emit func([]float32),
) error {
	shift, times, err := p.normalisation(be)
	if err != nil {
		return err
	}
	z = framesLast(z) // (T', h, w, e)
	h, w, e := z.Shape[1], z.Shape[2], z.Shape[3]
	for i, v := range z.Data {
		scaled := p.dt.Round(float32(p.dt.Round(v) * times.at(i%e)))
		z.Data[i] = p.dt.Round(scaled + shift.at(i%e))
	}
	for at := 0; frames > 0; frames -= p.MicroFrameSize {
		n := min(frames, p.MicroFrameSize)
		t := p.latentFrames(n)
		pictures, err := p.decodeTime(be, z.Data[at*h*w*e:][:t*h*w*e], t, h, w, n)
		if err != nil {
			return err
		}
		if err := p.spatial.decodeFrames(be, pictures, micro, emit); err != nil {
			return err
		}
		at += t
	}
	return nil
}

// decodeTime decodes a group of latents (t, h, w, e) to the 2D latents (n, h, w, c) of n frames.
func (p *openSora12) decodeTime(be kernels.Backend, group []float32, t, h, w, n int) (*stages.Array, error) {
	out := stages.NewArray(n, h, w, p.VAE2D.LatentChannels) // (n, h, w, c)
	decode := func(be kernels.Backend, z kernels.Tensor) kernels.Tensor { return p.temporal.Decode(be, z, n) }
	if err := compute(be, p.dt, out.Data, group, decode, 1, t, h, w, p.VAETemporal.EmbedDim); err != nil {
		return nil, err
	}
	for i, v := range out.Data {
		out.Data[i] = p.dt.Round(v / openSoraScale)
	}
	return out, nil
}

// encode runs the 2D encoder for each frame, then the temporal encoder for each group of frames.
func (p *openSora12) encode(be kernels.Backend, c Video, micro int, q *Posterior) error {
	h, w, channels := q.Latents.Shape[2], q.Latents.Shape[3], p.VAE2D.LatentChannels
	pictures := stages.NewArray(channels, c.Frames, h, w)
	of := Posterior{DType: p.dt, Latents: pictures, Draw: q.Draw}
	if err := p.spatial.encode(be, c, micro, &of); err != nil {
		return err
	}
	if err := p.spatial.normalize(be, pictures); err != nil {
		return err
	}
	pictures = framesLast(pictures) // (T, h, w, c)
	for i, v := range pictures.Data {
		pictures.Data[i] = p.dt.Round(v * openSoraScale)
	}
	q.Step = VideoNoise
	size := h * w * channels
	at := 0
	for first := 0; first < c.Frames; first += p.MicroFrameSize {
		n := min(p.MicroFrameSize, c.Frames-first)
		moments, err := p.encodeTime(be, pictures.Data[first*size:(first+n)*size], n, h, w)
		if err != nil {
			return err
		}
		q.Sample(moments, at, p.latentFrames(n))
		at += p.latentFrames(n)
	}
	return nil
}

// normalize computes (z - shift) / scale.
func (p *openSora12) normalize(be kernels.Backend, z *stages.Array) error {
	shift, times, err := p.normalisation(be)
	if err != nil {
		return err
	}
	size := len(z.Data) / p.VAETemporal.EmbedDim
	for i, v := range z.Data {
		z.Data[i] = p.dt.Round(p.dt.Round(v-shift.at(i/size)) / times.at(i/size))
	}
	return nil
}

// encodeTime returns the moments (T', h, w, 2e) of a group of n frames (n, h, w, c).
func (p *openSora12) encodeTime(be kernels.Backend, group []float32, n, h, w int) ([]float32, error) {
	c, front := p.VAE2D.LatentChannels, p.temporal.Front(n)
	padded := append(make([]float32, front*h*w*c, (front+n)*h*w*c), group...)
	moments := make([]float32, p.latentFrames(n)*h*w*2*p.VAETemporal.EmbedDim)
	return moments, compute(be, p.dt, moments, padded, p.temporal.Encode, 1, front+n, h, w, c)
}

func (p *openSora12) decodeGroup(be kernels.Backend, frames, height, width, micro int) {
	n, d := min(frames, p.MicroFrameSize), p.Downscale()
	end := be.Scope()
	p.temporal.Decode(be, be.Alloc(p.dt, 1, p.latentFrames(n), height/d, width/d, p.VAETemporal.EmbedDim), n)
	end()
	p.spatial.decodeGroup(be, n, height, width, micro)
}

func (p *openSora12) encodeGroup(be kernels.Backend, frames, height, width, micro int) {
	n, d := min(frames, p.MicroFrameSize), p.Downscale()
	end := be.Scope()
	t := n + p.temporal.Front(n)
	p.temporal.Encode(be, be.Alloc(p.dt, 1, t, height/d, width/d, p.VAE2D.LatentChannels))
	end()
	p.spatial.encodeGroup(be, frames, height, width, micro)
}
