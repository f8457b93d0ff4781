package sampler

import "context"

// FlowEuler follows the velocity in straight steps, with the table of diffusers' FlowMatchEulerDiscreteScheduler.
type FlowEuler struct {
	timetable           // not rounded to whole numbers
	sigmas    []float32 // for each step, followed by 0
}

// FlowTable returns the table of FlowMatchEulerDiscreteScheduler for n steps and a shift: the timesteps, and the noise levels
// followed by 0.
func FlowTable(n int, shift float64) (timesteps, sigmas []float32) {
	s := newFlowEuler(n, shift)
	return s.timesteps, s.sigmas
}

// newFlowEuler returns the sampler for n steps. The reference shifts the smallest sigma when it makes the training table, and
// shifts all sigmas again for the steps. Published models are run that way, so this code does it too.
func newFlowEuler(n int, shift float64) *FlowEuler {
	s := &FlowEuler{}
	last := float64(float32(shifted(float64(float32(1.0/flowTimesteps)), shift)))
	for i := range n {
		sigma := 1.0
		if n > 1 {
			sigma += float64(i) * (last - 1) / float64(n-1)
		}
		sigma = shifted(sigma, shift)
		s.sigmas = append(s.sigmas, float32(sigma))
		s.timesteps = append(s.timesteps, float32(sigma)*flowTimesteps)
	}
	s.sigmas = append(s.sigmas, 0)
	return s
}

// Sample runs the steps; see Sampler. It draws no noise. Given frames do not change.
func (s *FlowEuler) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	step := func(r *Run, i int) {
		by := s.sigmas[i+1] - s.sigmas[i]
		for e := range r.N {
			x := r.Latents(e)
			for j, v := range r.Prediction(e) {
				x[j] += float32(by * v)
			}
		}
	}
	return Loop{Name: "euler", Timesteps: s.timesteps, Step: step}.
		Sample(ctx, b, z, model, noise, progress)
}
