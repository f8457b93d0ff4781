package sampler

import (
	"context"
	"errors"
	"fmt"
)

// Loop is the common part of samplers that evaluate the network once per timestep and then change the latents. It checks the
// batch, calls the network, applies guidance, keeps given frames, saves, and resumes. A sampler of another module provides a
// Step and tables, and its Sample calls Loop.Sample; examples/sampler shows one.
type Loop struct {
	Name      string    // prefix of errors
	Timesteps []float32 // of the evaluations, in the training process, 0 to 1000
	// Step changes the latents of all elements after evaluation i. It must treat each value independently, because a worker may
	// have only a share of an element.
	Step func(r *Run, i int)
	// Remembers returns the names of the tensors, besides the latents, that a process needs to resume after done evaluations;
	// nil: none.
	Remembers func(done int) []string
	// Memory returns these tensors in the order of Remembers. Each has the length of the latents. They are read before the next
	// Step.
	Memory func(done int) []History
	// Input returns the factor of the latents that the network gets in evaluation i; nil: 1.
	Input func(i int) float32
}

// Sample runs the loop; see Sampler. Frames with mask 0 are given: the network sees them at timestep 0, and no step changes
// them.
func (l Loop) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise, progress func(done, total int)) error {
	if l.Remembers == nil {
		l.Remembers, l.Memory = remembersNothing, noHistory
	}
	generated, err := b.wholeMasks()
	var r *Run
	if err == nil {
		r, err = startRun(b, z, model, noise, len(l.Timesteps), l.Remembers)
	}
	if err != nil {
		return withName(l.Name, err)
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
	return withName(l.Name, r.steps(ctx, len(l.Timesteps), step, l.Memory, progress))
}

// wholeMasks returns which frames (n x Frames) are being denoised, nil if all are. Partial masks are an error.
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

// guideAll replaces the conditional velocities of all elements by the guided velocities.
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
