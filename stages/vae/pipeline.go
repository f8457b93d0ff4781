package vae

import (
	"encoding/json"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/vae/posterior"
	"latentbeam/stages/vae/temporal"
	"latentbeam/stages/weight"
)

// PipelineConfig describes the VideoAutoencoderPipeline of Open-Sora 1.2: a 2D autoencoder for every frame
// and a temporal one over groups of frames.
type PipelineConfig struct {
	VAE2D       KLConfig        `json:"vae_2d"`
	VAETemporal temporal.Config `json:"vae_temporal"`
	// MicroFrameSize is how many frames make a group: 17 in the published model. Groups do not see each
	// other, so it changes values.
	MicroFrameSize int      `json:"micro_frame_size"`
	Shift          channels `json:"shift"`
	ScaleBy        channels `json:"scale"`

	mean, std channels // shift and scale of the file of the weights, which win; nil before it is open
}

// channels is a number for each latent channel; in JSON one number stands for all.
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

// newPipelineConfig returns what OpenSoraVAE_V1_2 builds. Its config.json names the 2D autoencoder, that of
// Stable Diffusion XL, but does not describe it.
func newPipelineConfig() *PipelineConfig {
	c := &PipelineConfig{VAE2D: newKLConfig(), VAETemporal: temporal.New(), MicroFrameSize: 17,
		Shift: channels{0}, ScaleBy: channels{1}}
	c.VAE2D.BlockOutChannels, c.VAE2D.LayersPerBlock = []int{128, 256, 512, 512}, 2
	return c
}

func (c *PipelineConfig) validate() error {
	if err := c.VAE2D.validate(); err != nil {
		return err
	}
	if err := c.VAETemporal.Validate(); err != nil {
		return err
	}
	z := c.VAETemporal.EmbedDim
	switch {
	case c.VAE2D.LatentChannels != c.VAETemporal.InOutChannels:
		return fmt.Errorf("vae config.json: the 2D autoencoder has %d latent channels, the temporal one takes %d",
			c.VAE2D.LatentChannels, c.VAETemporal.InOutChannels)
	case c.MicroFrameSize < 1 || c.MicroFrameSize > maxGroup:
		return fmt.Errorf("vae config.json: micro_frame_size is %d, must be 1 to %d", c.MicroFrameSize, maxGroup)
	case len(c.Shift) != z && len(c.Shift) != 1, len(c.ScaleBy) != z && len(c.ScaleBy) != 1:
		return fmt.Errorf("vae config.json: shift has %d numbers and scale %d, must be %d, the latent channels",
			len(c.Shift), len(c.ScaleBy), z)
	}
	return nil
}

// maxGroup bounds the frames that are taken together.
const maxGroup = 1 << 12

func (c *PipelineConfig) downscale() int { return c.VAE2D.Downscale() }
func (c *PipelineConfig) scale() float64 { return 1 }

// statistics are those of the file of the weights; config.json may have others.
func (c *PipelineConfig) statistics() (mean, std []float64) {
	if len(c.mean) == 0 || len(c.std) == 0 {
		return nil, nil
	}
	for i := range c.VAETemporal.EmbedDim {
		mean, std = append(mean, float64(c.mean.at(i))), append(std, float64(c.std.at(i)))
	}
	return mean, std
}

// latents: every whole group of 17 frames makes 5 latent frames, the rest n/4 rounded up.
func (c *PipelineConfig) latents(frames, height, width int) ([]int, error) {
	d := c.VAE2D.Downscale()
	return []int{c.VAETemporal.EmbedDim, c.latentFrames(frames), height / d, width / d}, nil
}

func (c *PipelineConfig) latentFrames(frames int) int {
	of := func(n int) int { return (n + c.VAETemporal.Front(n)) / c.VAETemporal.Factor() }
	return frames/c.MicroFrameSize*of(c.MicroFrameSize) + of(frames%c.MicroFrameSize)
}

// pipeline is VideoAutoencoderPipeline.
type pipeline struct {
	*PipelineConfig
	dt           kernels.DType
	spatial      *kl
	temporal     temporal.Model
	shift, times kernels.Tensor // (1, e, 1, 1, 1): what the file holds wins over config.json
}

func (c *PipelineConfig) load(w *weight.Weights, dt kernels.DType) network {
	p := &pipeline{PipelineConfig: c, dt: dt,
		spatial:  loadKL(w.Sub("spatial_vae.module"), &c.VAE2D, dt),
		temporal: temporal.Load(w.Sub("temporal_vae"), &c.VAETemporal)}
	if len(c.Shift) > 1 {
		p.shift = w.Tensor("shift", 1, len(c.Shift), 1, 1, 1)
	} else {
		p.shift = w.Tensor("shift")
	}
	if len(c.ScaleBy) > 1 {
		p.times = w.Tensor("scale", 1, len(c.ScaleBy), 1, 1, 1)
	} else {
		p.times = w.Tensor("scale")
	}
	return p
}

// normalisation returns shift and scale of the latent channels.
func (p *pipeline) normalisation(be kernels.Backend) (shift, times channels, err error) {
	shift, times = make(channels, len(p.Shift)), make(channels, len(p.ScaleBy))
	if err := be.Download(shift, p.shift); err != nil {
		return nil, nil, err
	}
	return shift, times, be.Download(times, p.times)
}

// decode: z scale + shift, then for each group of latent frames the temporal decoder and, frame by frame,
// the 2D one.
func (p *pipeline) decode(
	be kernels.Backend, z *stages.Array, frames, micro int, emit func([]float32),
) error {
	shift, times, err := p.normalisation(be)
	if err != nil {
		return err
	}
	z = framesLast(z) // (T', h, w, e)
	h, w, e := z.Shape[1], z.Shape[2], z.Shape[3]
	for i, v := range z.Data {
		scaled := weight.Round(p.dt, float32(weight.Round(p.dt, v)*times.at(i%e)))
		z.Data[i] = weight.Round(p.dt, scaled+shift.at(i%e))
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

// decodeTime returns the latents (n, h, w, c) of n frames from those of a group (t, h, w, e).
func (p *pipeline) decodeTime(be kernels.Backend, group []float32, t, h, w, n int) (*stages.Array, error) {
	defer be.Scope()()
	z := be.Alloc(p.dt, 1, t, h, w, p.VAETemporal.EmbedDim) // (1, T', h, w, e)
	be.Upload(z, group)
	out := stages.NewArray(n, h, w, p.VAE2D.LatentChannels) // (n, h, w, c)
	if err := be.Download(out.Data, p.temporal.Decode(be, z, n)); err != nil {
		return nil, err
	}
	for i, v := range out.Data {
		out.Data[i] = weight.Round(p.dt, v/openSoraScale)
	}
	return out, nil
}

// encode: the 2D encoder frame by frame, then the temporal one for each group of frames.
func (p *pipeline) encode(be kernels.Backend, c clip, micro int, draw Noise) (*stages.Array, error) {
	pictures, err := p.spatial.encodeFrames(be, c, micro, draw) // (T, h, w, c)
	if err != nil {
		return nil, err
	}
	p.spatial.shift(pictures.Data, func(i int) int { return i % p.VAE2D.LatentChannels })
	for i, v := range pictures.Data {
		pictures.Data[i] = weight.Round(p.dt, v*openSoraScale)
	}
	h, w, e := pictures.Shape[1], pictures.Shape[2], p.VAETemporal.EmbedDim
	q := posterior.Posterior{DType: p.dt, Frames: p.latentFrames(c.frames), Height: h, Width: w, Channels: e, Draw: draw,
		Step: posterior.VideoNoise}
	out := stages.NewArray(q.Frames, h, w, e) // (T', h, w, e)
	size := h * w * p.VAE2D.LatentChannels
	at := 0
	for first := 0; first < c.frames; first += p.MicroFrameSize {
		n := min(p.MicroFrameSize, c.frames-first)
		moments, err := p.encodeTime(be, pictures.Data[first*size:(first+n)*size], n, h, w)
		if err != nil {
			return nil, err
		}
		q.Sample(out.Data[at*h*w*e:], moments, at, p.latentFrames(n))
		at += p.latentFrames(n)
	}
	return channelsFirst(out), nil
}

// normalize: (z - shift) / scale.
func (p *pipeline) normalize(be kernels.Backend, z *stages.Array) error {
	shift, times, err := p.normalisation(be)
	if err != nil {
		return err
	}
	size := len(z.Data) / p.VAETemporal.EmbedDim
	for i, v := range z.Data {
		z.Data[i] = weight.Round(p.dt, weight.Round(p.dt, v-shift.at(i/size))/times.at(i/size))
	}
	return nil
}

// encodeTime returns the moments (T', h, w, 2e) of a group of n frames (n, h, w, c).
func (p *pipeline) encodeTime(be kernels.Backend, group []float32, n, h, w int) ([]float32, error) {
	defer be.Scope()()
	c, front := p.VAE2D.LatentChannels, p.temporal.Front(n)
	padded := append(make([]float32, front*h*w*c, (front+n)*h*w*c), group...)
	x := be.Alloc(p.dt, 1, front+n, h, w, c) // (1, T, h, w, c)
	be.Upload(x, padded)
	moments := make([]float32, p.latentFrames(n)*h*w*2*p.VAETemporal.EmbedDim)
	return moments, be.Download(moments, p.temporal.Encode(be, x))
}

func (p *pipeline) decodeGroup(be kernels.Backend, frames, height, width, micro int) {
	n, d := min(frames, p.MicroFrameSize), p.downscale()
	end := be.Scope()
	p.temporal.Decode(be, be.Alloc(p.dt, 1, p.latentFrames(n), height/d, width/d, p.VAETemporal.EmbedDim), n)
	end()
	p.spatial.decodeGroup(be, n, height, width, micro)
}

func (p *pipeline) encodeGroup(be kernels.Backend, frames, height, width, micro int) {
	n, d := min(frames, p.MicroFrameSize), p.downscale()
	end := be.Scope()
	t := n + p.temporal.Front(n)
	p.temporal.Encode(be, be.Alloc(p.dt, 1, t, height/d, width/d, p.VAE2D.LatentChannels))
	end()
	p.spatial.encodeGroup(be, frames, height, width, micro)
}
