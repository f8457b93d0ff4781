package vae

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages"
)

// Noise fills dst with the standard normal values of elements offset, offset+1, ... of a latent (C, T, h, w). step numbers the
// latents of one clip. A nil Noise means the mean of the posterior.
type Noise func(dst []float32, step uint32, offset uint64)

// The steps of the noise of package rng that autoencoders use. Samplers use steps from 0 up.
const (
	FrameNoise = 1<<31 + iota // for the latents of single frames
	VideoNoise                // for latents that cover several frames
)

// Posterior is the distribution of latents: a normal distribution for each value.
type Posterior struct {
	DType   kernels.DType
	Latents *stages.Array // (C, T, h, w), filled by Sample
	Draw    Noise
	Step    uint32
}

// The limits of the log variance, as in the reference.
const minLogVar, maxLogVar = -30, 20

// Sample sets the latents of the n frames from first on to mean + exp(logvar/2) noise. moments (n, h, w, 2c) has the mean, then
// the log variance. Every operation is rounded to the type of the activations.
func (p *Posterior) Sample(moments []float32, first, n int) {
	c, t, area := p.Latents.Shape[0], p.Latents.Shape[1], p.Latents.Shape[2]*p.Latents.Shape[3]
	noise := make([]float32, area)
	for f := range n {
		for ch := range c {
			at := (ch*t + first + f) * area
			if p.Draw != nil {
				p.Draw(noise, p.Step, uint64(at))
			}
			for i := range area {
				of := moments[(f*area+i)*2*c:]
				mean, logVar := of[ch], of[c+ch]
				if p.Draw != nil {
					mean += p.round(p.deviation(logVar) * p.round(noise[i]))
				}
				p.Latents.Data[at+i] = p.round(mean)
			}
		}
	}
}

func (p *Posterior) deviation(logVar float32) float32 {
	half := min(max(logVar, minLogVar), maxLogVar) / 2
	return p.round(float32(exp(float64(half))))
}

func (p *Posterior) round(x float32) float32 { return p.DType.Round(x) }

// exp returns e^x for x in [-15, 10], the range of a log variance. The last bit of the standard library's result may differ
// between platforms. Here every product is rounded by a conversion, so latents are the same everywhere.
func exp(x float64) float64 {
	k := math.Round(float64(x / math.Ln2))
	r := x - float64(k*math.Ln2) // |r| < 0.35
	sum := 1.0
	for i := 18; i > 0; i-- { // r^19/19! is below 1e-25
		sum = 1 + float64(float64(r*sum)/float64(i))
	}
	return math.Ldexp(sum, int(k))
}
