package sampler

import (
	"context"
	"fmt"
	"math"
)

// IDDPM is ancestral sampling with learned variance (arXiv:2102.09672) and classifier-free guidance, as
// Open-Sora 1.0 runs it. It is read-only and may serve any number of batches at once.
type IDDPM struct {
	steps []coefficients // by ascending timestep
}

// NewIDDPM returns the sampler of num_inference_steps steps.
func NewIDDPM(numInferenceSteps int) (*IDDPM, error) {
	steps, err := schedule(numInferenceSteps)
	return &IDDPM{steps: steps}, err
}

// Timesteps returns the timesteps in the order in which the network sees them: from 999 down to 0.
func (s *IDDPM) Timesteps() []int {
	out := make([]int, 0, len(s.steps))
	for i := len(s.steps) - 1; i >= 0; i-- {
		out = append(out, int(s.steps[i].timestep))
	}
	return out
}

// Batch says what is sampled together. Latents are n elements of Channels x Size, fp32, row-major.
type Batch struct {
	N        int // elements
	Channels int // latent channels: 4
	Size     int // T * H * W
	// Guidance holds the guidance_scale of each element. The network is then called with 2n rows: the n
	// elements under their prompts, then the same n under the null text. Nil means no guidance and n rows.
	Guidance []float32
	// GuidedChannels is how many of the first channels of the noise are guided; Open-Sora 1.0 guides 3 of 4.
	// The others, and the variance, are those of the conditional row.
	GuidedChannels int
}

// Model evaluates the network: rows of Channels x Size at one timestep each (the training process's, 0 to
// 999) give rows of 2 Channels x Size, the noise and the variance. rows and timesteps are valid during the
// call; the result until the next call.
type Model func(ctx context.Context, rows, timesteps []float32) ([]float32, error)

// Noise fills dst (Channels x Size) with the standard normal noise of an element after a step, counted
// from 0 in sampling order. It must depend on nothing else. The last step draws none.
type Noise func(step, element int, dst []float32)

// Sample turns the initial noise z (n x Channels x Size) into latents, in place. progress, which may be
// nil, is told after each step how many are done. A cancelled ctx ends the run between two steps.
//
// The reference keeps 2n latents and draws noise for all of them, but feeds the first n to both halves of
// every call and returns them: the second half's noise changes nothing, so here it does not exist.
func (s *IDDPM) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	if err := b.check(len(z)); err != nil {
		return err
	}
	halves := 1
	if b.Guidance != nil {
		halves = 2
	}
	rows := make([]float32, halves*len(z))
	timesteps := make([]float32, halves*b.N)
	draw := make([]float32, b.Channels*b.Size)
	for done := range s.steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("iddpm: stopped before step %d of %d: %w", done+1, len(s.steps), err)
		}
		i := len(s.steps) - 1 - done
		for h := range halves {
			copy(rows[h*len(z):], z)
		}
		for j := range timesteps {
			timesteps[j] = s.steps[i].timestep
		}
		out, err := model(ctx, rows, timesteps)
		if err != nil {
			return fmt.Errorf("iddpm: step %d of %d: %w", done+1, len(s.steps), err)
		}
		if len(out) != 2*len(rows) {
			return fmt.Errorf("iddpm: the network gave %d values for %d, want %d (is pred_sigma off?)",
				len(out), len(rows), 2*len(rows))
		}
		for e := range b.N {
			width := b.Channels * b.Size
			x, cond := z[e*width:][:width], out[2*e*width:][:2*width]
			if b.Guidance != nil {
				b.guide(cond, out[2*(b.N+e)*width:], b.Guidance[e])
			}
			s.steps[i].denoise(x, cond)
			if i > 0 {
				noise(done, e, draw)
				s.steps[i].perturb(x, cond[width:], draw)
			}
		}
		if progress != nil {
			progress(done+1, len(s.steps))
		}
	}
	return nil
}

func (b Batch) check(length int) error {
	if b.N < 1 || b.Channels < 1 || b.Size < 1 || length != b.N*b.Channels*b.Size {
		return fmt.Errorf("iddpm: %d values are not %d elements of %d channels x %d",
			length, b.N, b.Channels, b.Size)
	}
	if b.Guidance != nil && len(b.Guidance) != b.N {
		return fmt.Errorf("iddpm: %d guidance scales for %d elements", len(b.Guidance), b.N)
	}
	if b.GuidedChannels < 0 || b.GuidedChannels > b.Channels {
		return fmt.Errorf("iddpm: %d guided channels of %d", b.GuidedChannels, b.Channels)
	}
	return nil
}

// guide replaces the guided channels of the conditional noise by null + scale (cond - null).
func (b Batch) guide(cond, null []float32, scale float32) {
	for i := range b.GuidedChannels * b.Size {
		cond[i] = null[i] + float32(scale*(cond[i]-null[i]))
	}
}

// denoise replaces x_t by the posterior mean of x_(t-1), given the predicted noise in the first len(x)
// values of out. Products are rounded before they are added, on every machine (no fused multiply-add).
func (c *coefficients) denoise(x, out []float32) {
	for i, eps := range out[:len(x)] {
		x0 := float32(c.recip*x[i]) - float32(c.recipM1*eps)
		x[i] = float32(c.mean0*x0) + float32(c.meanT*x[i])
	}
}

// perturb adds noise of the learned variance: v in [-1, 1] runs from the posterior variance to beta, in logs.
func (c *coefficients) perturb(x, v, noise []float32) {
	for i := range x {
		f := (v[i] + 1) / 2
		logVar := float32(f*c.logBeta) + float32((1-f)*c.logPost)
		x[i] += float32(float32(math.Exp(float64(logVar/2))) * noise[i])
	}
}
