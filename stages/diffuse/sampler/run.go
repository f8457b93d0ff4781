package sampler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"latentbeam/schemas/fault"
)

// Run is one call of Sample: the batch, and buffers that the steps share.
type Run struct {
	Batch
	z         []float32
	starts    []int // start of each element in z, and the end
	model     Model
	noise     Noise
	rows      []float32
	timesteps []float32
	out       []float32 // output of the last evaluation
	draw      []float32 // noise of one element
	ahead     []float32 // noise of all elements, drawn during the evaluation
	kept      []float32 // z before the step, if frames are masked
	input     float32   // factor of z for the network; 0: 1
}

func newRun(b Batch, z []float32, model Model, noise Noise) (*Run, error) {
	if err := b.check(len(z)); err != nil {
		return nil, err
	}
	r := &Run{Batch: b, z: z, starts: []int{0}, model: model, noise: noise}
	largest := 0
	for e := range b.N {
		n := b.Channels * b.size(e)
		largest = max(largest, n)
		r.starts = append(r.starts, r.starts[e]+n)
	}
	r.draw = make([]float32, largest)
	r.rows = make([]float32, r.branches()*len(z))
	r.timesteps = make([]float32, r.branches()*b.N)
	if b.Masks != nil {
		r.kept = make([]float32, len(z))
	}
	return r, nil
}

// startRun begins a Sample call. remembers names the tensors that the sampler needs to resume.
func startRun(b Batch, z []float32, model Model, noise Noise, steps int, remembers func(done int) []string) (*Run, error) {
	r, err := newRun(b, z, model, noise)
	if err == nil {
		err = b.checkState(steps, len(z), remembers)
	}
	return r, err
}

// steps calls step for each of the n steps that is not done yet. memory returns the tensors to save after a step.
func (r *Run) steps(ctx context.Context, n int, step func(i int) error, memory func(done int) []History,
	progress func(done, total int)) error {
	for i := r.From.Done; i < n; i++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped before step %d of %d: %w", i+1, n, err)
		}
		err := step(i)
		if err == nil {
			err = r.finite()
		}
		if err != nil {
			return fmt.Errorf("step %d of %d: %w", i+1, n, err)
		}
		if err := r.stepped(i+1, n, memory(i+1)); err != nil {
			return fmt.Errorf("after step %d of %d: %w", i+1, n, err)
		}
		if progress != nil {
			progress(i+1, n)
		}
	}
	return nil
}

// withName adds the name of a sampler to an error. nil stays nil.
func withName(sampler string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", sampler, err)
}

// branches returns the number of rows that the network computes for each element.
func (r *Run) branches() int {
	switch {
	case r.Image != nil:
		return imageBranches
	case r.Guidance != nil:
		return 2
	}
	return 1
}

// Latents returns the latents of element e, Channels x Size. A step changes them in place.
func (r *Run) Latents(e int) []float32 { return r.z[r.starts[e]:r.starts[e+1]] }

// Prediction returns the network's prediction for element e, after guidance if the batch has guidance.
func (r *Run) Prediction(e int) []float32 { return r.row(0, e)[:r.starts[e+1]-r.starts[e]] }

// row returns the network's output for element e in a branch.
func (r *Run) row(branch, e int) []float32 {
	k := len(r.out) / len(r.rows)
	at := branch * len(r.z)
	return r.out[k*(at+r.starts[e]) : k*(at+r.starts[e+1])]
}

// Noise returns standard normal noise for element e, Channels x Size. It is valid until the next call.
func (r *Run) Noise(e int, d Draw) []float32 {
	noise := r.draw[:r.starts[e+1]-r.starts[e]]
	r.noise(d, e, noise)
	return noise
}

// evaluate calls the network on z with one timestep for all rows. generated (n x Frames) may be nil.
func (r *Run) evaluate(ctx context.Context, timestep float32, generated []bool) (err error) {
	for h := range r.branches() {
		copy(r.rows[h*len(r.z):], r.z)
	}
	if r.input != 0 {
		for i := range r.rows {
			r.rows[i] *= r.input
		}
	}
	for i := range r.timesteps {
		r.timesteps[i] = timestep
	}
	var all []bool // nil, which means that all frames are generated, is faster
	if slices.Contains(generated, false) {
		all = slices.Repeat(generated, r.branches())
	}
	if r.out, err = r.model(ctx, r.rows, r.timesteps, all); err != nil {
		return err
	}
	if n := len(r.rows); len(r.out) != n && len(r.out) != 2*n {
		return fmt.Errorf("the network gave %d values for %d, want as many or twice as many", len(r.out), n)
	}
	return nil
}

// finite returns an error if the latents hold a NaN or an infinity. Later steps cannot repair them.
func (r *Run) finite() error {
	if r.Idle {
		return nil
	}
	for e := range r.N {
		for _, v := range r.Latents(e) {
			if v-v != 0 { // only says which element: the position would differ with a worker's share
				return fault.NotFinite(errors.New("the latents hold numbers that are not finite"))
			}
		}
	}
	return nil
}

// frames calls f with the range in z of every frame of element e, channel by channel.
func (r *Run) frames(e int, f func(frame, from, to int)) {
	area := r.size(e) / r.Frames
	at := r.starts[e]
	for range r.Channels {
		for t := range r.Frames {
			f(t, at, at+area)
			at += area
		}
	}
}

// restore resets the frames (n x Frames) that the step must not change.
func (r *Run) restore(changed []bool) {
	for e := range r.N {
		r.frames(e, func(t, from, to int) {
			if !changed[e*r.Frames+t] {
				copy(r.z[from:to], r.kept[from:to])
			}
		})
	}
}

// perturbFrames replaces the chosen frames (n x Frames) by keep * given + add * noise.
func (r *Run) perturbFrames(step int, chosen []bool, given []float32, keep, add float32) {
	for e := range r.N {
		if !slices.Contains(chosen[e*r.Frames:][:r.Frames], true) {
			continue
		}
		noise := r.Noise(e, Draw{Step: step, Given: true})
		start := r.starts[e]
		r.frames(e, func(t, from, to int) {
			if !chosen[e*r.Frames+t] {
				return
			}
			for i := from; i < to; i++ {
				r.z[i] = float32(keep*given[i]) + float32(add*noise[i-start])
			}
		})
	}
}
