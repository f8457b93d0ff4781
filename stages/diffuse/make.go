package diffuse

import (
	"context"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// maker makes clips, on a single device or as one rank of a set.
type maker struct {
	*stage
	dev        kernels.Backend
	place      *nn.GridRank // nil: a single device, or all ranks compute the same in step
	speeds     []float64    // relative speeds of the ranks
	keeper     *keeper      // nil: steps are not saved
	writes     bool         // this rank saves steps
	replicated bool         // every rank runs the whole batch and stores latents in its own elements; else only rank 0 does
}

// Run samples the whole batch. The noise of an element depends only on its seed, its sample index and the step, so neither the
// batch nor a restart changes the result.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.RunSet(ctx, stages.Alone(dev), batch)
}

func (m maker) run(ctx context.Context, batch []*stages.Element) error {
	if clips := batch[0].Row.Loop; clips > 1 {
		return m.clips(ctx, batch, clips)
	}
	rest, err := m.runImages(ctx, batch, 0, 1)
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
	if m.experts != nil {
		return m.runExperts(ctx, batch, clip)
	}
	j, err := m.newJob(batch, clip)
	if err != nil || j == nil {
		return err
	}
	return m.sample(ctx, j)
}

// sample samples a batch. Then rank 0, or every rank for its own elements, stores the latents.
func (m maker) sample(ctx context.Context, j *job) error {
	if m.Options.Cache != nil && len(j.batch) > 1 {
		return m.sampleEach(ctx, j.splitElements())
	}
	if m.place != nil && m.place.Grid.Pipeline > 1 {
		return m.samplePipeline(ctx, j.groups(m.place.Grid))
	}
	defer m.dev.Scope()()
	p, network, err := m.networksOf(j)
	if err != nil {
		return err
	}
	z, b := p.initialLatents()
	evaluate := network.counted(j.done)
	cache := newEasyCache(p, network, &b.From)
	if cache != nil {
		evaluate = cache.evaluate
	}
	if v := m.newSaver(); m.first() {
		b.After = network.mag.after(cache.after(v.after(p, z)))
	}
	if err := j.sampler.Sample(ctx, b, z, evaluate, p.noise(), j.progress(ctx)); err != nil || !m.first() && !m.replicated {
		return err
	}
	return m.deliver(p, z, network.evaluations)
}

// deliver stores the latents z in the elements, and the number of computed evaluations.
func (m maker) deliver(p portion, z []float32, evaluations int) error {
	err := p.deliver(z, m.replicated)
	if err == nil && m.writes {
		p.readEvaluations(evaluations)
	}
	if err == nil {
		m.sampled(p)
	}
	return err
}

// first reports whether this rank delivers the results of its portion.
func (m maker) first() bool { return m.place == nil || m.place.First() }

// sampleEach samples jobs one after another, or several at once in a pipeline.
func (m maker) sampleEach(ctx context.Context, jobs []*job) error {
	n := 1
	if m.place != nil {
		n = m.place.Grid.Pipeline
	}
	for some := range slices.Chunk(jobs, max(1, n)) {
		var err error
		if n > 1 {
			err = m.samplePipeline(ctx, some)
		} else {
			err = m.sample(ctx, some[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
