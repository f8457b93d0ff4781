package vae

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// Noise fills dst with the standard normals of elements offset, offset+1, ... of a latent (C, T, h, w); step
// tells the latents of one clip apart. A nil Noise stands for the mean of the posterior.
type Noise func(dst []float32, step uint32, offset uint64)

// The steps of the noise of package rng that belong to autoencoders; samplers count up from 0.
const (
	frameNoise = 1<<31 + iota // of the latents of single frames
	videoNoise                // of the latents that reach over frames
)

// posterior is the distribution of latents (C, T, h, w): a normal one for each value.
type posterior struct {
	dt                              kernels.DType
	frames, height, width, channels int
	draw                            Noise
	step                            uint32
}

// The bounds of the log variance, those of the reference.
const minLogVar, maxLogVar = -30, 20

// sample fills dst (n, h, w, c) from moments (n, h, w, 2c), mean before log variance, of the n frames from
// first on: mean + exp(logvar/2) noise. Every operation rounds to the type of the activations.
func (p *posterior) sample(dst, moments []float32, first, n int) {
	area, c := p.height*p.width, p.channels
	noise := make([]float32, area)
	for f := range n {
		for ch := range c {
			if p.draw != nil {
				p.draw(noise, p.step, uint64((ch*p.frames+first+f)*area))
			}
			for i := range area {
				at := f*area + i
				mean, logVar := moments[at*2*c+ch], moments[at*2*c+c+ch]
				if p.draw != nil {
					mean += p.round(p.deviation(logVar) * p.round(noise[i]))
				}
				dst[at*c+ch] = p.round(mean)
			}
		}
	}
}

func (p *posterior) deviation(logVar float32) float32 {
	half := min(max(logVar, minLogVar), maxLogVar) / 2
	return p.round(float32(exp(float64(half))))
}

func (p *posterior) round(x float32) float32 { return nn.Round(p.dt, x) }

// exp returns e^x for x in [-15, 10], which is all a log variance needs. The standard library's may differ
// between platforms in the last bit; here every product is rounded by a conversion, so latents are the
// same everywhere.
func exp(x float64) float64 {
	k := math.Round(float64(x / math.Ln2))
	r := x - float64(k*math.Ln2) // |r| < 0.35
	sum := 1.0
	for i := 18; i > 0; i-- { // r^19/19! is below 1e-25
		sum = 1 + float64(float64(r*sum)/float64(i))
	}
	return math.Ldexp(sum, int(k))
}

// framesLast turns latents (C, T, h, w) into (T, h, w, C), the order in which networks take them.
func framesLast(z *stages.Array) *stages.Array {
	c, t, h, w := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	return transpose(z, []int{t, h, w, c})
}

// channelsFirst turns latents (T, h, w, C) into (C, T, h, w), the order of the seams.
func channelsFirst(z *stages.Array) *stages.Array {
	t, h, w, c := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	flat := transpose(&stages.Array{Shape: []int{t * h * w, c}, Data: z.Data}, []int{c, t * h * w})
	return &stages.Array{Shape: []int{c, t, h, w}, Data: flat.Data}
}

// transpose swaps the first axis of a with all the others together.
func transpose(a *stages.Array, shape []int) *stages.Array {
	rows := a.Shape[0]
	out := &stages.Array{Shape: shape, Data: make([]float32, len(a.Data))}
	if rows == 0 {
		return out
	}
	cols := len(a.Data) / rows
	for i := range rows {
		for j, v := range a.Data[i*cols : (i+1)*cols] {
			out.Data[j*rows+i] = v
		}
	}
	return out
}
