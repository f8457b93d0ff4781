package stdit

import (
	"context"
	"slices"

	"latentbeam/internal/rng"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
)

// job is one batch under its sampler.
type job struct {
	*stage
	batch   []*stages.Element
	sampler sampler.Sampler
	size    Size
	guided  bool
	clip    int       // its number in a longer video
	masks   []float32 // edit ratio of every frame of every element, n x T; nil: no frame is given
	image   *imageInput
}

// newJob fails the elements whose text does not fit; a nil job means that none is left.
func (s *stage) newJob(batch []*stages.Element, clip int) (*job, error) {
	if batch = s.checkTexts(batch); len(batch) == 0 {
		return nil, nil
	}
	row := &batch[0].Row
	size := s.Config.latentSize(row)
	batch, masks := s.condition(batch, size, clip)
	if len(batch) == 0 {
		return nil, nil
	}
	plan, err := s.recipe.New(row.NumInferenceSteps, s.clip(row))
	return &job{s, batch, plan, size, guided(row), clip, masks, nil}, err
}

// channels times frames: how many planes of H x W an element's latents have.
func (j *job) planes() int { return j.Config.InChannels * j.size.T }

// values is the length of one element's latents.
func (j *job) values() int { return j.planes() * j.size.H * j.size.W }

// start writes the initial latents (C, T, H, W) of an element: noise, and the frames that are given.
func (j *job) start(dst []float32, e *stages.Element) {
	rng.Normals(dst, uint64(*e.Row.Seed), uint32(e.Row.SampleIndex), rng.Clip(j.clip), 0)
	if isGiven(e) {
		z := &stages.Array{Shape: []int{j.Config.InChannels, j.size.T, j.size.H, j.size.W}, Data: dst}
		_, _ = j.give(z, e, j.clip) // newJob has seen that it can be done
	}
}

// noise writes the noise (C, T, H, W) of an element for a draw.
func (j *job) noise(dst []float32, e *stages.Element, d sampler.Draw) {
	step := rng.Clip(j.clip) + uint32(d.Step+1)
	if d.Given {
		step |= rng.Given
	}
	rng.Normals(dst, uint64(*e.Row.Seed), uint32(e.Row.SampleIndex), step, 0)
}

// finish gives an element its latents.
func (j *job) finish(e *stages.Element, z []float32) {
	shape := []int{j.Config.InChannels, j.size.T, j.size.H, j.size.W}
	e.Latents = &stages.Array{Shape: shape, Data: z}
	e.LatentScale = 1
	if j.Config.Version == OpenSora10 || j.Config.Version == OpenSora11 {
		e.LatentScale = latentScale
	}
}

func (j *job) evaluation(dev kernels.Backend) (*evaluation, error) { return j.stageOf(dev, nn.Stage{}) }

// stageOf is the network with the blocks of one stage of a pipeline.
func (j *job) stageOf(dev kernels.Backend, stage nn.Stage) (*evaluation, error) {
	model, err := j.Part(dev, stage)
	return &evaluation{dev: dev, model: model, size: j.size, frameInterval: j.frameInterval, image: j.image}, err
}

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
	net, err := j.evaluation(dev)
	if err != nil {
		return err
	}
	defer dev.Scope()()
	if net.prepared, err = net.prepare(rowsOf(j.batch, j.branches())); err != nil {
		return err
	}
	n := j.values()
	z := make([]float32, len(j.batch)*n)
	c := j.Config.InChannels
	b := sampler.Batch{N: len(j.batch), Channels: c, Size: n / c, Frames: j.size.T, Masks: j.masks}
	if j.image != nil {
		b.Image = &j.image.Image
	}
	for i, e := range j.batch {
		j.start(z[i*n:][:n], e)
		if j.branches() > 1 {
			b.Guidance = append(b.Guidance, float32(e.Row.Guidance()))
		}
	}
	noise := func(d sampler.Draw, i int, dst []float32) { j.noise(dst, j.batch[i], d) }
	if err := j.sampler.Sample(ctx, b, z, net.evaluate, noise, nil); err != nil {
		return err
	}
	for i, e := range j.batch {
		j.finish(e, z[i*n:(i+1)*n:(i+1)*n])
	}
	return nil
}
