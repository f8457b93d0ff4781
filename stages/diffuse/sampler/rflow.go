package sampler

import (
	"context"
	"slices"
)

// RectifiedFlow follows the straight path from noise to data along the network's velocity (arXiv:2209.03003), as in Open-Sora
// 1.2 and 1.3.
type RectifiedFlow struct {
	timetable // from 1000 down
	style     flowStyle
}

// flowStyle holds the additions of Open-Sora 1.3 to guidance.
type flowStyle struct {
	Oscillate bool // guide in every second step only, after the first steps
	Rescale   bool // pull the spread of the guided velocity back towards the conditional one
}

// Sample runs the steps; see Sampler. It draws noise only if frames are given.
func (s *RectifiedFlow) Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
	progress func(done, total int)) error {
	r, err := startRun(b, z, model, noise, len(s.timesteps), remembersNothing)
	if err == nil {
		f := newFlowFrames(b)
		if b.From.Done > 0 {
			f.active(s.timesteps[b.From.Done-1])
		}
		err = r.steps(ctx, len(s.timesteps), func(i int) error { return s.step(ctx, r, f, i) }, noHistory, progress)
	}
	return withName("rflow", err)
}

// step advances z by step i.
func (s *RectifiedFlow) step(ctx context.Context, r *Run, f *flowFrames, i int) error {
	t, next := s.timesteps[i], float32(0)
	if i+1 < len(s.timesteps) {
		next = s.timesteps[i+1]
	}
	tau := t / flowTimesteps
	keep := 1 - tau // the reference computes the factor of the noise from 1 - tau too
	var generated []bool
	if r.Masks != nil {
		copy(r.kept, r.z)
		var first []bool
		generated, first = f.active(t)
		r.perturbFrames(i, first, r.kept, keep, 1-keep)
	}
	if r.Image != nil && r.Image.Renoise {
		r.perturbFrames(i, slices.Repeat(r.Image.Given, r.N), r.Image.Latents, keep, 1-keep)
	}
	if err := r.evaluate(ctx, t, generated); err != nil {
		return err
	}
	if err := s.guideAll(r, i); err != nil {
		return err
	}
	dt := (t - next) / flowTimesteps
	for e := range r.N {
		x := r.Latents(e)
		for j, v := range r.Prediction(e) {
			x[j] += float32(v * dt)
		}
	}
	if r.Masks != nil {
		r.restore(generated)
	}
	return nil
}

// guideAll replaces the conditional velocities by the guided velocities.
func (s *RectifiedFlow) guideAll(r *Run, i int) error {
	if r.Image == nil && r.Guidance != nil && s.style.Rescale {
		return s.guideRescaled(r, i)
	}
	for e := range r.N {
		v := r.row(0, e)[:len(r.Latents(e))]
		switch {
		case r.Image != nil:
			guideImage(v, r.row(1, e), r.row(2, e), s.guidanceAt(r.Guidance[e], i), s.imageScales(r, i), r.size(e))
		case r.Guidance != nil:
			guide(v, r.row(1, e), len(v), s.guidanceAt(r.Guidance[e], i))
		}
	}
	return nil
}

// guideRescaled is guideAll with the spread of each guided velocity pulled back towards the spread of the conditional one.
func (s *RectifiedFlow) guideRescaled(r *Run, i int) error {
	planes := r.Channels * max(1, r.Frames)
	parts := make([][]Moments, 2*r.N) // of each element, before and after guidance
	for e := range r.N {
		v := r.row(0, e)[:len(r.Latents(e))]
		parts[2*e] = momentsOf(v, planes)
		guide(v, r.row(1, e), len(v), s.guidanceAt(r.Guidance[e], i))
		parts[2*e+1] = momentsOf(v, planes)
	}
	if r.Gather != nil {
		if err := r.Gather(parts); err != nil {
			return err
		}
	}
	for e := range r.N {
		rescale(r.row(0, e)[:len(r.Latents(e))], deviation(parts[2*e], planes), deviation(parts[2*e+1], planes))
	}
	return nil
}

// oscillateFrom is the first step from which only even steps are guided, if guidance oscillates.
const oscillateFrom = 10

// guidanceAt returns the scale of step i.
func (s *RectifiedFlow) guidanceAt(scale float32, i int) float32 {
	if s.style.Oscillate && i >= oscillateFrom && i%2 == 1 {
		return 1
	}
	return scale
}

// flowFrames tracks the given frames of a batch through the steps.
type flowFrames struct {
	begins    []float32 // timestep from which a frame is generated, n x Frames
	generated []bool    // state after the previous step
}

func newFlowFrames(b Batch) *flowFrames {
	f := &flowFrames{begins: make([]float32, len(b.Masks)), generated: make([]bool, len(b.Masks))}
	for i, m := range b.Masks {
		f.begins[i] = m * flowTimesteps
		f.generated[i] = m == 1 // noise from the start
	}
	return f
}

// active returns which frames are generated at timestep t, and which of them start at t.
func (f *flowFrames) active(t float32) (generated, first []bool) {
	generated, first = make([]bool, len(f.begins)), make([]bool, len(f.begins))
	for i, from := range f.begins {
		generated[i] = from >= t
		first[i] = generated[i] && !f.generated[i]
	}
	f.generated = generated
	return generated, first
}
