package sampler

import (
	"context"
	"math"
)

// EulerAncestral takes straight steps to below the next noise level and adds fresh noise up to that level:
// EulerAncestralDiscreteScheduler of diffusers (algorithm of k-diffusion).
type EulerAncestral struct {
	timetable           // may be fractional
	sigmas    []float32 // for each step, followed by 0
	first     float32   // factor of the initial noise
	velocity  bool      // the network predicts v, not the noise
}

func newEulerAncestral(n int, c VPConfig) *EulerAncestral {
	s := &EulerAncestral{timetable: timetable{c.steps(n)}, velocity: c.Prediction == predictionV}
	s.sigmas = c.sigmas(s.timesteps)
	if s.first = s.sigmas[0]; c.Spacing == spacingLeading {
		s.first = float32(math.Sqrt(float64(float32(s.first*s.first) + 1)))
	}
	return s
}

// Signature names the sampler with its tables.
func (s *EulerAncestral) Signature() string {
	name := solverAncestral
	if s.velocity {
		name += "/v"
	}
	return Signature(name, toFloat64(s.timesteps), toFloat64(s.sigmas), []float64{float64(s.first)})
}

// Sample runs the steps; see Sampler. Every step but the last draws noise. Frames cannot be given.
func (s *EulerAncestral) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	if err := b.refuseGivenFrames(solverAncestral); err != nil {
		return err
	}
	if b.From.Done == 0 {
		for i := range z {
			z[i] *= s.first
		}
	}
	return Loop{Name: solverAncestral, Timesteps: s.timesteps, Step: s.step, Input: s.input}.
		Sample(ctx, b, z, model, noise, progress)
}

// input returns the factor of the latents that the network gets in step i.
func (s *EulerAncestral) input(i int) float32 { return 1 / rootPlus1(s.sigmas[i]) }

// rootPlus1 returns sqrt(sigma^2 + 1).
func rootPlus1(sigma float32) float32 { return float32(math.Sqrt(float64(float32(sigma*sigma) + 1))) }

// levels returns how much noise of the next level is kept (down) and how much is fresh (up).
func (s *EulerAncestral) levels(i int) (down, up float32) {
	from, to := s.sigmas[i]*s.sigmas[i], s.sigmas[i+1]*s.sigmas[i+1]
	up = float32(math.Sqrt(float64(float32(to*(from-to)) / from)))
	return float32(math.Sqrt(float64(to - float32(up*up)))), up
}

// step advances all elements.
func (s *EulerAncestral) step(r *Run, i int) {
	sigma := s.sigmas[i]
	down, up := s.levels(i)
	root := rootPlus1(sigma)
	for e := range r.N {
		x := r.Latents(e)
		var noise []float32
		if up > 0 {
			noise = r.Noise(e, Draw{Step: i})
		}
		for j, v := range r.Prediction(e) {
			data := x[j] - float32(sigma*v)
			if s.velocity {
				data = float32(v*(-sigma/root)) + x[j]/(float32(sigma*sigma)+1)
			}
			x[j] += float32((x[j] - data) / sigma * (down - sigma))
			if noise != nil {
				x[j] += float32(noise[j] * up)
			}
		}
	}
}
