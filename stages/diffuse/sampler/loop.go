package sampler

import (
	"context"
	"errors"
	"fmt"
)

// Loop is the common part of samplers that evaluate the network once at each timestep and then change the latents: it
// checks the batch, calls the network, guides, keeps given frames, saves and goes on. A sampler of another module is a
// Step with its tables; its Sample returns Loop.Sample. examples/sampler is one.
type Loop struct {
	Name      string    // begins the errors
	Timesteps []float32 // of the evaluations, in the training process, 0 to 1000
	// Step changes the latents of all elements after evaluation i. It must treat each value by itself: a worker may have a
	// share of an element.
	Step func(r *Run, i int)
	// Remembers names the values that a later process needs beside the latents to go on after so many evaluations; nil:
	// none.
	Remembers func(done int) []string
	// Memory returns these values, as many as the latents each and in the order of Remembers. They are read before the next
	// Step.
	Memory func(done int) []History
	// Input is the factor of the latents that the network takes in evaluation i; nil: 1.
	Input func(i int) float32
}

// Sample runs the loop; see Sampler. Frames whose mask is 0 are given: the network takes them as at timestep 0, and no
// step changes them.
func (l Loop) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise, progress func(done, total int)) error {
	if l.Remembers == nil {
		l.Remembers, l.Memory = nothing, noHistory
	}
	generated, err := b.wholeMasks()
	var r *Run
	if err == nil {
		r, err = start(b, z, model, noise, len(l.Timesteps), l.Remembers)
	}
	if err != nil {
		return named(l.Name, err)
	}
	copy(r.kept, z)
	step := func(i int) error {
		if l.Input != nil {
			r.input = l.Input(i)
		}
		if err := r.evaluate(ctx, l.Timesteps[i], generated); err != nil {
			return err
		}
		r.guideAll(l.Timesteps[i])
		l.Step(r, i)
		if generated != nil {
			r.restore(generated)
		}
		return nil
	}
	return named(l.Name, r.steps(ctx, len(l.Timesteps), step, l.Memory, progress))
}

// wholeMasks returns which frames (n x Frames) are being denoised, nil where all are. Part of a frame cannot be given.
func (b Batch) wholeMasks() (generated []bool, err error) {
	if b.Image != nil {
		return nil, errors.New("frames cannot be given by a second input")
	}
	for _, m := range b.Masks {
		if m != 0 && m != 1 {
			return nil, fmt.Errorf("a frame mask is %g: frames are given or not, 0 or 1", m)
		}
		generated = append(generated, m == 1)
	}
	return generated, nil
}

// guideAll replaces the conditional velocities of all elements at a timestep by the guided ones.
func (r *Run) guideAll(timestep float32) {
	if r.Guidance == nil {
		return
	}
	scales := r.Guidance
	if r.Second != nil && timestep < r.Second.Below {
		scales = r.Second.Guidance
	}
	for e := range r.N {
		v := r.row(0, e)[:len(r.Latents(e))]
		guide(v, r.row(1, e), len(v), scales[e])
	}
}
