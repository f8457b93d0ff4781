package diffuse

import (
	"context"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
)

// maker makes clips, alone or as one rank of a set.
type maker struct {
	*stage
	dev    kernels.Backend
	seat   *nn.Seat  // nil: alone, or with ranks that do the same in step
	speeds []float64 // of the ranks
}

// Run samples the whole batch. The noise of an element depends on its seed, its sample index and the
// step alone, so neither the batch nor a restart shows in the result.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return maker{stage: s, dev: dev}.run(ctx, batch)
}

func (m maker) run(ctx context.Context, batch []*stages.Element) error {
	if clips := batch[0].Row.Loop; clips > 1 {
		return m.clips(ctx, batch, clips)
	}
	rest, err := m.runImages(ctx, batch, place{0, 1})
	if err != nil {
		return err
	}
	return m.clip(ctx, rest, 0)
}

// clip samples one clip of the batch.
func (m maker) clip(ctx context.Context, batch []*stages.Element, clip int) error {
	if len(batch) == 0 {
		return nil
	}
	j, err := m.newJob(batch, clip)
	if err != nil || j == nil {
		return err
	}
	return m.sample(ctx, j)
}

// sample samples a batch; the elements get its latents on every rank.
func (m maker) sample(ctx context.Context, j *job) error {
	if m.seat == nil {
		return j.alone(ctx, m.dev)
	}
	if m.seat.Grid.Pipeline > 1 {
		return fly(ctx, m.seat, m.speeds, j.groups(m.seat.Grid), true)
	}
	plan, err := j.plan(m.speeds, j.branches())
	if err != nil {
		return err
	}
	return j.run(ctx, m.seat, plan, true)
}

// sampleEach samples batches, in a pipeline several at once.
func (m maker) sampleEach(ctx context.Context, jobs []*job) error {
	n := 1
	if m.seat != nil {
		n = m.seat.Grid.Pipeline
	}
	for some := range slices.Chunk(jobs, max(1, n)) {
		var err error
		if n > 1 {
			err = fly(ctx, m.seat, m.speeds, some, true)
		} else {
			err = m.sample(ctx, some[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// alone samples the batch on one device.
func (j *job) alone(ctx context.Context, dev kernels.Backend) error {
	model, err := j.Part(dev, nn.Stage{})
	if err != nil {
		return err
	}
	defer dev.Scope()()
	evaluate, err := j.Evaluator(dev, model, &Rows{Size: j.size, Rows: rowsOf(j.batch, j.branches()), Given: j.given()})
	if err != nil {
		return err
	}
	n := j.values()
	z := make([]float32, len(j.batch)*n)
	b := sampler.Batch{N: len(j.batch), Channels: j.Channels, Size: n / j.Channels, Frames: j.size.T, Masks: j.masks,
		Image: j.image}
	for i, e := range j.batch {
		j.start(z[i*n:][:n], e)
		if j.branches() > 1 {
			b.Guidance = append(b.Guidance, float32(e.Row.Guidance()))
		}
	}
	noise := func(d sampler.Draw, i int, dst []float32) { j.noise(dst, j.batch[i], d) }
	if err := j.sampler.Sample(ctx, b, z, evaluate, noise, nil); err != nil {
		return err
	}
	for i, e := range j.batch {
		j.finish(e, z[i*n:(i+1)*n:(i+1)*n])
	}
	return nil
}
