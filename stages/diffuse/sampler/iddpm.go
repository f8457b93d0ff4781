package sampler

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// IDDPM is ancestral sampling with learned variance (arXiv:2102.09672) and classifier-free guidance, as in Open-Sora 1.0 and
// 1.1.
type IDDPM struct {
	steps  []coefficients // by ascending timestep
	guided int            // number of first noise channels that are guided; 0: all
}

// NewIDDPM returns the sampler for num_inference_steps steps. Only the first guidedChannels of the noise are guided, or all if
// it is 0; the other channels and the variance come from the conditional row. With tables in fp32, as in Open-Sora 1.1,
// coefficients are rounded after every operation, else once at the end.
func NewIDDPM(numInferenceSteps, guidedChannels int, fp32Tables bool) (*IDDPM, error) {
	round := exactly
	if fp32Tables {
		round = toFP32
	}
	steps, err := schedule(numInferenceSteps, round)
	return &IDDPM{steps: steps, guided: guidedChannels}, err
}

// Steps returns the number of steps.
func (s *IDDPM) Steps() int { return len(s.steps) }

// Timesteps returns the timesteps in the order of the network's evaluations: from 999 down to 0.
func (s *IDDPM) Timesteps() []float32 {
	out := make([]float32, 0, len(s.steps))
	for i := len(s.steps) - 1; i >= 0; i-- {
		out = append(out, s.steps[i].timestep)
	}
	return out
}

// Sample runs the steps; see Sampler.
//
// The reference keeps 2n latents and draws noise for all of them. But it feeds the first n to both halves of every call and
// returns only these, so the noise of the second half changes nothing. This code does not draw it.
func (s *IDDPM) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	r, err := startRun(b, z, model, noise, len(s.steps), remembersNothing)
	switch {
	case err != nil:
	case s.guided > b.Channels:
		err = fmt.Errorf("%d guided channels of %d", s.guided, b.Channels)
	case b.Image != nil:
		err = errors.New("no published model conditions it on image latents")
	default:
		err = r.steps(ctx, len(s.steps), func(done int) error { return s.step(ctx, r, done) }, noHistory, progress)
	}
	return withName("iddpm", err)
}

// step advances z by one step. done is the number of finished steps.
func (s *IDDPM) step(ctx context.Context, r *Run, done int) error {
	at := len(s.steps) - 1 - done
	c := &s.steps[at]
	var generated, changed []bool
	if r.Masks != nil {
		generated, changed = s.frames(r, done, at)
	}
	var noise *drawn // nil in the last step
	if at > 0 {
		noise = r.drawAhead(Draw{Step: done})
	}
	err := r.evaluate(ctx, c.timestep, generated)
	noise.wait()
	if err != nil {
		return err
	}
	if len(r.out) != 2*len(r.rows) {
		return fmt.Errorf("the network gave %d values for %d, want %d (is pred_sigma off?)",
			len(r.out), len(r.rows), 2*len(r.rows))
	}
	guided := s.guided
	if guided == 0 {
		guided = r.Channels
	}
	for e := range r.N {
		x, cond := r.Latents(e), r.row(0, e)
		if r.Guidance != nil {
			guide(cond, r.row(1, e), guided*r.size(e), r.Guidance[e])
		}
		spans(len(x), func(from, to int) {
			c.denoise(x[from:to], cond[from:to])
			if noise != nil {
				c.perturb(x[from:to], cond[len(x)+from:], noise.values[r.starts[e]+from:])
			}
		})
	}
	if r.Masks != nil {
		r.restore(changed)
	}
	return nil
}

// frames adds noise to the frames that start at this step. It returns the frames that the network treats as noisy and the
// frames that the step changes (n x Frames each). As in the reference, a frame with mask 0 starts at the last step: it gets
// noise and is denoised once, but modulated as a given frame.
func (s *IDDPM) frames(r *Run, done, at int) (generated, changed []bool) {
	n := len(r.Masks)
	now := make([]bool, n)
	generated, changed = make([]bool, n), make([]bool, n)
	for i, m := range r.Masks {
		begins := int(float32(m * float32(len(s.steps))))
		now[i], generated[i], changed[i] = begins == at, begins > at, begins >= at
	}
	copy(r.kept, r.z)
	c := &s.steps[at]
	r.perturbFrames(done, now, r.kept, c.sqrtBar, c.sqrtBarM1)
	return generated, changed
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
