package vae

import (
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/vae/osplan/causal"

	"latentbeam/stages/vae/osplan/wf"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/vae/wan"
	"latentbeam/stages/weights"
)

// streamed is the network of an autoencoder that processes a clip in its own chunks and ignores the micro batch size. Denoisers
// and tables use its latents normalised channel by channel.
type streamed struct {
	architecture
	dt         kernels.DType
	mean, std  []float64 // of the autoencoder's own latents, by channel
	maxLatents int       // number of latent frames from which memory does not grow
	model      chunks
}

// chunks is a loaded network of one of the packages. Frames and moments of latents come in chunks, channels last.
type chunks interface {
	// Decode decodes latents z (T, h, w, C). With bands z has this rank's rows.
	Decode(be kernels.Backend, z []float32, t, h, w int, bands *stream.Bands, emit func(pixels []float32, n int)) error
	// Encode emits the moments (h, w, 2C) of each latent frame. With bands they are of this rank's rows, and so is height.
	Encode(be kernels.Backend, frames, height, width int, bands *stream.Bands,
		pixels func(dst []float32, first, n int) error, emit func(moments []float32)) error
}

// wanConfig is the configuration of an AutoencoderKLWan, for Wan 2.1 or TI2V-5B of Wan 2.2.
type wanConfig struct{ wan.Config }

func newWan() *wanConfig { return &wanConfig{*wan.New()} }

// traits: denoisers and tables use latents that are normalised channel by channel.
func (c *wanConfig) traits() Traits {
	version := "2.1"
	if c.IsResidual {
		version = "2.2"
	}
	return Traits{title: fmt.Sprintf("autoencoder of Wan %s (causal 3D, %d latent channels)", version, c.ZDim),
		Scale: 1, Mean: c.LatentsMean, Std: c.LatentsStd, Banded: true, truncates: true}
}

func (c *wanConfig) load(w *weights.Weights, dt kernels.DType) network {
	return &streamed{c, dt, c.LatentsMean, c.LatentsStd, 3, wan.Load(&c.Config, w, dt)}
}

// wfConfig is the configuration of a WFVAEModel, that of Open-Sora-Plan 1.3.
type wfConfig struct{ wf.Config }

func newWF() *wfConfig { return &wfConfig{*wf.New()} }

// traits: shift and scale are per channel. The filters of Haar transforms are constant, so they are not read.
func (c *wfConfig) traits() Traits {
	t := Traits{title: fmt.Sprintf("autoencoder of Open-Sora-Plan 1.3 (WF-VAE, %d latent channels)", c.LatentDim),
		Scale: 1, Mean: c.Shift, Banded: true, truncates: true,
		unusedTensors: []string{"encoder.wavelet_tranform_l1.*", "encoder.wavelet_tranform_l2.*",
			"decoder.inverse_wavelet_tranform_l1.*", "decoder.inverse_wavelet_tranform_l2.*"}}
	for _, v := range c.Scale {
		t.Std = append(t.Std, 1/v)
	}
	return t
}

func (c *wfConfig) load(w *weights.Weights, dt kernels.DType) network {
	t := c.traits()
	return &streamed{c, dt, t.Mean, t.Std, 3, wf.Load(&c.Config, w, dt)}
}

// causalVAEConfig is the configuration of a CausalVAEModel, that of Open-Sora-Plan 1.2.
type causalVAEConfig struct{ causal.Config }

func newCausalVAE() *causalVAEConfig { return &causalVAEConfig{*causal.New()} }

// causalScale is the factor on latents of Open-Sora-Plan 1.2 for its denoiser. Its config.json does not contain it.
const causalScale = 0.18215

// traits: tensors that the reference uses only for training losses are not read.
func (c *causalVAEConfig) traits() Traits {
	return Traits{title: "autoencoder of Open-Sora-Plan 1.2 (causal 3D)", Scale: causalScale,
		Mean: make([]float64, c.EmbedDim), Std: slices.Repeat([]float64{1 / causalScale}, c.EmbedDim),
		Group:     Grouping{Frames: causal.GroupFrames, Latents: causal.GroupLatents, Overlap: 1, Dropped: true},
		truncates: true, unusedTensors: []string{"loss.*"}}
}

func (c *causalVAEConfig) load(w *weights.Weights, dt kernels.DType) network {
	one := slices.Repeat([]float64{1}, c.EmbedDim)
	return &streamed{c, dt, make([]float64, c.EmbedDim), one, causal.GroupLatents, causal.Load(&c.Config, w, dt)}
}

// normalize subtracts the mean of each channel from the autoencoder's latents and divides by its deviation.
func (m *streamed) normalize(_ kernels.Backend, z *stages.Array) error {
	size := len(z.Data) / len(m.mean)
	for ch, mean := range m.mean {
		for i, v := range z.Data[ch*size:][:size] {
			z.Data[ch*size+i] = m.dt.Round((v - float32(mean)) / float32(m.std[ch]))
		}
	}
	return nil
}

// restore is the inverse of normalize, for latents (..., C).
func (m *streamed) restore(z []float32) {
	for i, v := range z {
		ch := i % len(m.mean)
		z[i] = m.dt.Round(float32(v*float32(m.std[ch])) + float32(m.mean[ch]))
	}
}

func (m *streamed) decode(be kernels.Backend, z *stages.Array, _, _ int, emit func([]float32)) error {
	return m.decodeBand(be, z, nil, emit)
}

// decodeBand decodes latents z (C, T', h, w). With bands z has this rank's rows.
func (m *streamed) decodeBand(be kernels.Backend, z *stages.Array, bands *stream.Bands, emit func([]float32)) error {
	z = framesLast(z) // (T', h, w, C)
	m.restore(z.Data)
	return m.model.Decode(be, z.Data, z.Shape[0], z.Shape[1], z.Shape[2], bands, func(pixels []float32, n int) {
		size := len(pixels) / n
		for i := range n {
			emit(pixels[i*size : (i+1)*size])
		}
	})
}

func (m *streamed) encode(be kernels.Backend, c Video, _ int, p *Posterior) error {
	p.Step = VideoNoise
	i := 0
	return m.model.Encode(be, c.Frames, c.Height, c.Width, nil, c.Pixels, func(moments []float32) {
		p.Sample(moments, i, 1)
		i++
	})
}

// encodeBand returns the moments (T', h, w, 2C) of a clip. With bands they are of this rank's rows.
func (m *streamed) encodeBand(be kernels.Backend, c Video, bands *stream.Bands) (moments []float32, err error) {
	err = m.model.Encode(be, c.Frames, c.Height, c.Width, bands, c.Pixels,
		func(part []float32) { moments = append(moments, part...) })
	return moments, err
}

// decodeGroup and encodeGroup run the first chunks of a clip, up to the first that has the largest size.
func (m *streamed) decodeGroup(be kernels.Backend, frames, height, width, _ int) {
	t, h, w := min(m.maxLatents, (frames-1)/stream.Factor+1), height/m.Downscale(), width/m.Downscale()
	_ = m.model.Decode(be, make([]float32, t*h*w*len(m.mean)), t, h, w, nil, func([]float32, int) {})
}

func (m *streamed) encodeGroup(be kernels.Backend, frames, height, width, _ int) {
	_ = m.model.Encode(be, min(frames, 1+stream.Factor*(m.maxLatents-1)), height, width, nil,
		func([]float32, int, int) error { return nil }, func([]float32) {})
}
