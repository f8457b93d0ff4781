package sampler

import (
	"context"
	"math"
)

// dmdTimesteps are the timesteps that FastWan's models were distilled for.
var dmdTimesteps = []float32{1000, 757, 522}

// FlowDMD predicts the data in every step and adds fresh noise of the next level. Models that were distilled by distribution
// matching (FastWan) are sampled this way.
type FlowDMD struct {
	timetable
	sigmas []float32
}

// newFlowDMD returns the sampler with a shift. The level of a timestep is the nearest one of the 1000 of training.
func newFlowDMD(shift float64) *FlowDMD {
	s := &FlowDMD{timetable: timetable{dmdTimesteps}}
	for _, t := range s.timesteps {
		best, distance := float32(0), float32(math.Inf(1))
		for i := flowTimesteps; i > 0; i-- {
			sigma := shifted32(float32(i)/flowTimesteps, float32(shift))
			if d := float32(math.Abs(float64(float32(sigma*flowTimesteps) - t))); d < distance {
				best, distance = sigma, d
			}
		}
		s.sigmas = append(s.sigmas, best)
	}
	return s
}

// shifted32 is shifted, computed in fp32 as the reference does.
func shifted32(sigma, shift float32) float32 {
	return float32(shift*sigma) / (1 + float32((shift-1)*sigma))
}

// Sample runs the steps; see Sampler. Each step but the last draws noise. Given frames do not change.
func (s *FlowDMD) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	step := func(r *Run, i int) {
		sigma := float64(s.sigmas[i])
		for e := range r.N {
			x := r.Latents(e)
			for j, v := range r.Prediction(e) {
				x[j] = float32(float64(x[j]) - float64(sigma*float64(v)))
			}
			if i == len(s.sigmas)-1 {
				continue
			}
			next := s.sigmas[i+1]
			for j, n := range r.Noise(e, Draw{Step: i}) {
				x[j] = float32((1-next)*x[j]) + float32(next*n)
			}
		}
	}
	return Loop{Name: "dmd", Timesteps: s.timesteps, Step: step}.
		Sample(ctx, b, z, model, noise, progress)
}

// Signature names the sampler with its tables.
func (s *FlowDMD) Signature() string {
	return Signature("dmd", toFloat64(s.timesteps), toFloat64(s.sigmas))
}

// newDistilledEuler returns Euler's method with n even steps, shifted once. It is the table of the models that lightx2v
// distilled to four steps.
func newDistilledEuler(n int, shift float64) *FlowEuler {
	s := &FlowEuler{}
	for i := range n {
		sigma := float32(shifted(1-float64(i)/float64(n), shift))
		s.sigmas = append(s.sigmas, sigma)
		s.timesteps = append(s.timesteps, float32(sigma*flowTimesteps))
	}
	s.sigmas = append(s.sigmas, 0)
	return s
}
