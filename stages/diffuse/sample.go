package diffuse

import (
	"context"

	"latentbeam/internal/rng"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/sampler"
	"latentbeam/stages/weight"
)

// alone samples the batch on one device.
func (j *job) alone(ctx context.Context, dev kernels.Backend, v *saver) error {
	defer dev.Scope()()
	evaluate, err := j.evaluator(dev)
	if err != nil {
		return err
	}
	z, b := j.whole()
	b.After = v.alone(z)
	defer v.wait()
	if err := j.sampler.Sample(ctx, b, z, evaluate, j.wholeNoise, j.progress(ctx)); err != nil {
		return err
	}
	j.finishAll(z)
	return nil
}

// evaluator returns the network on a device that has all of the batch, prepared in the scope open at the call.
func (j *job) evaluator(dev kernels.Backend) (sampler.Model, error) {
	model, err := j.part(dev, weight.Stage{})
	if err != nil {
		return nil, err
	}
	return j.Evaluator(dev, model, &Rows{Size: j.size, Rows: rowsOf(j.batch, j.branches()), Given: j.given()})
}

// whole returns the initial latents of the batch as a batch of the sampler.
func (j *job) whole() (z []float32, b sampler.Batch) {
	n := j.values()
	z = make([]float32, len(j.batch)*n)
	b = sampler.Batch{N: len(j.batch), Channels: j.Channels, Size: n / j.Channels, Frames: j.size.T, Masks: j.masks,
		Image: j.image}
	for i, e := range j.batch {
		j.start(z[i*n:][:n], e)
		if j.branches() > 1 {
			j.guideBy(&b, e)
		}
	}
	b.From = j.from(len(j.batch), func(dst []float32, i int, of func(*stages.Element) []float32) []float32 {
		return append(dst, of(j.batch[i])...)
	})
	return z, b
}

// wholeNoise is the noise of the batch of whole.
func (j *job) wholeNoise(d sampler.Draw, i int, dst []float32) { j.noise(dst, j.batch[i], d) }

// guideBy adds the guidance scales of an element to a batch of the sampler.
func (j *job) guideBy(b *sampler.Batch, e *stages.Element) {
	b.Guidance = append(b.Guidance, float32(e.Row.Guidance()))
	if j.experts == nil {
		return
	}
	if b.Second == nil {
		b.Second = &sampler.Second{Below: j.Boundary}
	}
	second := e.Row.Guidance()
	if e.Row.GuidanceScale2 != nil {
		second = *e.Row.GuidanceScale2
	}
	b.Second.Guidance = append(b.Second.Guidance, float32(second))
}

// finishAll gives the elements their latents z.
func (j *job) finishAll(z []float32) {
	n := j.values()
	for i, e := range j.batch {
		j.finish(e, z[i*n:(i+1)*n:(i+1)*n])
	}
}

// rowsOf are the rows of a batch as the sampler orders them: branch by branch.
func rowsOf(batch []*stages.Element, branches int) (rows []Row) {
	for b := range branches {
		for _, e := range batch {
			rows = append(rows, Row{e, b})
		}
	}
	return rows
}

// start writes the initial latents (C, T, H, W) of an element: those of its steps so far, or noise and the frames that
// are given.
func (j *job) start(dst []float32, e *stages.Element) {
	if j.done > 0 {
		copy(dst, e.Begun.Latents.Data)
		return
	}
	if noise := j.noises[e]; noise != nil {
		copy(dst, noise)
	} else {
		j.draw(dst, e, 0)
	}
	if j.isGiven(e) {
		z := &stages.Array{Shape: []int{j.Channels, j.size.T, j.size.H, j.size.W}, Data: dst}
		_, _ = j.give(z, e, j.clip) // newJob has seen that it can be done
	}
}

// noise writes the noise (C, T, H, W) of an element for a draw.
func (j *job) noise(dst []float32, e *stages.Element, d sampler.Draw) {
	step := uint32(d.Step + 1)
	if d.Given {
		step |= rng.Given
	}
	j.draw(dst, e, step)
}

// draw writes the normals (C, T, H, W) of an element for a number in its clip.
func (j *job) draw(dst []float32, e *stages.Element, number uint32) {
	rng.Normals(dst, uint64(*e.Row.Seed), uint32(e.Row.SampleIndex), rng.Clip(j.clip)+number, 0)
}

// finish gives an element its latents.
func (j *job) finish(e *stages.Element, z []float32) {
	shape := []int{j.Channels, j.size.T, j.size.H, j.size.W}
	e.Latents = &stages.Array{Shape: shape, Data: z}
	e.RawLatents, e.LatentScale = nil, j.LatentScale
}

// shares returns the initial latents of a rank's shares as a batch of the sampler. A rank without shares
// samples one pixel that nobody looks at, so that it takes part in every step.
func (j *job) shares(r *rank) (z []float32, b sampler.Batch) {
	b = sampler.Batch{N: len(r.shares), Channels: j.Channels, Frames: j.size.T, Gather: r.gather}
	full := make([]float32, j.values())
	for _, s := range r.shares {
		n := len(s.pixels)
		z = append(z, make([]float32, j.planes()*n)...)
		j.start(full, j.batch[s.element])
		s.pick(z[len(z)-j.planes()*n:], full, j.planes())
		b.Sizes = append(b.Sizes, j.size.T*n)
		j.guideBy(&b, j.batch[s.element])
		if j.masks != nil {
			b.Masks = append(b.Masks, j.masks[s.element*j.size.T:][:j.size.T]...)
		}
	}
	if b.N == 0 {
		b.N, b.Sizes, b.Guidance, b.Idle = 1, []int{j.size.T}, nil, true
		j.guideBy(&b, j.batch[0])
		z = make([]float32, j.planes())
	}
	if j.branches() == 1 {
		b.Guidance, b.Second = nil, nil
	}
	b.Image = j.imageOf(r.shares)
	b.From = j.from(b.N, func(dst []float32, i int, of func(*stages.Element) []float32) []float32 {
		if len(r.shares) == 0 {
			return append(dst, make([]float32, j.planes())...)
		}
		s := r.shares[i]
		dst = append(dst, make([]float32, j.planes()*len(s.pixels))...)
		s.pick(dst[len(dst)-j.planes()*len(s.pixels):], of(j.batch[s.element]), j.planes())
		return dst
	})
	return z, b
}

// noiseOf is the noise of a rank's shares.
func (j *job) noiseOf(r *rank) sampler.Noise {
	full := make([]float32, j.values())
	return func(d sampler.Draw, i int, dst []float32) {
		if len(r.shares) > 0 {
			j.noise(full, j.batch[r.shares[i].element], d)
			r.shares[i].pick(dst, full, j.planes())
		}
	}
}

// imageOf is what the sampler of some shares of the element takes.
func (j *job) imageOf(shares []share) *sampler.Image {
	if j.image == nil {
		return nil
	}
	own, planes := *j.image, j.planes()
	own.Latents = nil
	for _, s := range shares {
		part := make([]float32, planes*len(s.pixels))
		s.pick(part, j.image.Latents, planes)
		own.Latents = append(own.Latents, part...)
	}
	if len(shares) == 0 { // one pixel stands in
		own.Latents = make([]float32, planes)
	}
	return &own
}
