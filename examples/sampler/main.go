// Command heun is latentbeam with one sampler more: Heun's method for models of flow matching, such as Wan. Copy this
// directory to begin a program of your own.
package main

import (
	"context"
	"os"
	"slices"

	"latentbeam"
	"latentbeam/stages/diffuse/sampler"
)

func main() {
	os.Exit(latentbeam.Run(latentbeam.Extra{Solvers: []sampler.Solver{{
		Name: "heun", Process: sampler.FlowMatching,
		Recipe: func(c sampler.Choice) (sampler.Recipe, error) {
			if err := c.Only("heun", "shift"); err != nil {
				return sampler.Recipe{}, err
			}
			return sampler.Recipe{Method: method{shift: *c.Shift}}, nil // steps and guidance are the model's own
		},
	}}}))
}

// method makes the samplers of rows.
type method struct{ shift float64 }

// Check accepts every row: the model's own limits are checked already.
func (method) Check(sampler.Row) error { return nil }

// New returns the sampler of a row.
func (m method) New(r sampler.Row) (sampler.Sampler, error) {
	return newHeun(r.NumInferenceSteps, m.shift), nil
}

// heun follows the velocity by Heun's method, of second order: each step evaluates the network at its beginning and, but for
// the last step, at its end. n steps are 2 n - 1 evaluations.
type heun struct {
	timesteps []float32 // of the evaluations
	sigmas    []float32 // noise levels of the steps, and 0 behind them
}

func newHeun(n int, shift float64) *heun {
	timesteps, sigmas := sampler.FlowTable(n, shift)
	h := &heun{sigmas: sigmas}
	for i, t := range timesteps {
		h.timesteps = append(h.timesteps, t)
		if i+1 < n {
			h.timesteps = append(h.timesteps, timesteps[i+1])
		}
	}
	return h
}

// Steps returns the number of evaluations.
func (h *heun) Steps() int { return len(h.timesteps) }

// Timesteps returns them.
func (h *heun) Timesteps() []float32 { return h.timesteps }

// Signature names the method and its tables: saved steps of another signature are not gone on from.
func (h *heun) Signature() string {
	return sampler.Signature("heun", wide(h.timesteps), wide(h.sigmas))
}

func wide(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

// Sample runs the steps; see sampler.Sampler. No noise is drawn.
func (h *heun) Sample(ctx context.Context, b sampler.Batch, z []float32, model sampler.Model, noise sampler.Noise,
	progress func(done, total int)) error {
	u := &run{heun: h}
	for _, m := range b.From.Memory { // of an earlier process, which was stopped in the middle of a step
		if m.Name == "start" {
			u.start = slices.Clone(m.Values)
		} else {
			u.velocity = slices.Clone(m.Values)
		}
	}
	return sampler.Loop{Name: "heun", Timesteps: h.timesteps, Step: u.step, Remembers: remembers, Memory: u.memory}.
		Sample(ctx, b, z, model, noise, progress)
}

// run is one call of Sample.
type run struct {
	*heun
	start    []float32 // latents at the beginning of the step
	velocity []float32 // that the network predicted there
}

// remembers names the values that a step needs between its two evaluations.
func remembers(done int) []string {
	if done%2 == 1 {
		return []string{"start", "velocity"}
	}
	return nil
}

func (u *run) memory(done int) []sampler.History {
	if done%2 == 1 {
		return []sampler.History{{Name: "start", Values: u.start}, {Name: "velocity", Values: u.velocity}}
	}
	return nil
}

// step changes the latents of all elements after evaluation i.
func (u *run) step(r *sampler.Run, i int) {
	by := u.sigmas[i/2+1] - u.sigmas[i/2]
	first := i%2 == 0
	if first {
		u.start, u.velocity = u.start[:0], u.velocity[:0]
	}
	at := 0
	for e := range r.N {
		x := r.Latents(e)
		if first {
			u.start = append(u.start, x...)
			u.velocity = append(u.velocity, r.Prediction(e)...)
		}
		for j, v := range r.Prediction(e) {
			if first {
				x[j] += float32(by * v) // Go may fuse a*b + c; the conversion keeps the bytes equal on all processors
			} else {
				x[j] = u.start[at+j] + float32(by*0.5*(u.velocity[at+j]+v))
			}
		}
		at += len(x)
	}
}
