package diffuse

import (
	"context"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/rng"
	"latentbeam/stages/weights"
)

// job is one batch with its sampler.
type job struct {
	*stage
	batch   []*stages.Element
	sampler sampler.Sampler
	size    dit.LatentSize
	guided  bool
	clip    int            // its number in a longer video
	masks   []float32      // edit ratio of every frame of every element, n x T; nil: no frame is given
	image   *sampler.Image // frames given as separate inputs; nil: none
	plans   *plans
	done    int                           // steps done by an earlier process, the same for all elements
	expert  int                           // the denoiser of the current step, 0 or 1
	noises  map[*stages.Element][]float32 // noise that replaces the generator's, for elements that have their own
}

// newJob makes a job of the batch. It fails the elements that do not fit, and returns nil if none is left.
func (s *stage) newJob(batch []*stages.Element, clip int) (*job, error) {
	row := &batch[0].Row
	j := &job{stage: s, size: s.Config.LatentSize(row), guided: s.Guided(row), clip: clip, plans: &plans{},
		noises: map[*stages.Element][]float32{}}
	for _, e := range batch {
		if err := j.add(e); err != nil {
			e.Fail("denoise", fault.Row(err))
		}
	}
	if len(j.batch) == 0 {
		return nil, nil
	}
	if !slices.ContainsFunc(j.batch, s.isGiven) {
		j.masks = nil
	}
	j.done = doneOf(j.batch[0], clip)
	var err error
	j.sampler, err = s.recipe.New(row.NumInferenceSteps, s.clip(row))
	return j, err
}

// add adds an element to the job if its texts, noise and given frames fit.
func (j *job) add(e *stages.Element) error {
	if err := j.checkTexts(e.Text, &e.Row); err != nil {
		return err
	}
	noise, err := j.readNoise(e, j.size)
	if err != nil {
		return err
	}
	masks, err := j.stage.masks(e, j.size, j.clip)
	if err != nil {
		return err
	}
	j.batch, j.noises[e], j.masks = append(j.batch, e), noise, append(j.masks, masks...)
	return nil
}

// progress returns a function that reports the finished steps of all clips.
func (j *job) progress(ctx context.Context) func(done, total int) {
	tell, clips := stages.Progress(ctx), max(1, j.batch[0].Row.Loop)
	return func(done, total int) { tell(j.clip*total+done, clips*total) }
}

// branches returns how many rows of a network evaluation belong to one element.
func (j *job) branches() int {
	switch {
	case j.image != nil:
		return 3
	case j.guided:
		return 2
	}
	return 1
}

// steps returns how many steps remain.
func (j *job) steps() int { return j.sampler.Steps() - j.done }

// planes returns the number of H x W planes in an element's latents.
func (j *job) planes() int { return j.Channels * j.size.T }

// values is the length of one element's latents.
func (j *job) values() int { return j.Channels * j.size.Len() }

// start writes the initial latents (C, T, H, W) of an element to dst: its saved latents, or noise with the given frames.
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
		_, _ = j.insertGiven(&stages.Array{Shape: j.Shape(j.size), Data: dst}, e, j.clip) // newJob has checked it
	}
}

// draw writes normal noise (C, T, H, W) for an element. number is the number of the draw in the clip.
func (j *job) draw(dst []float32, e *stages.Element, number uint32) {
	rng.Normals(dst, uint64(*e.Row.Seed), uint32(e.Row.SampleIndex), rng.Clip(j.clip)+number, 0)
}

// guideBy adds the guidance scales of an element to a batch of the sampler.
func (j *job) guideBy(b *sampler.Batch, e *stages.Element) {
	if j.branches() == 1 {
		return
	}
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

// finish gives the elements their latents z.
func (j *job) finish(z []float32) {
	for i, e := range j.batch {
		e.Latents, e.RawLatents, e.LatentScale = j.latents(z, i), nil, j.LatentScale
	}
}

// latents returns element i of the batch latents z.
func (j *job) latents(z []float32, i int) *stages.Array {
	n := j.values()
	return &stages.Array{Shape: j.Shape(j.size), Data: z[i*n : (i+1)*n : (i+1)*n]}
}

// model returns the denoiser of the current step, on a device.
func (j *job) model(dev kernels.Backend, stage weights.PipelineStage) (*loaded, error) {
	if j.expert == 1 {
		return j.experts.second.Part(dev, stage)
	}
	return j.Part(dev, stage)
}

// evaluator returns the network for branches from to to-1, on a device that has the whole batch. Tensors are allocated in the
// scope open at the call. Rows are ordered branch by branch, as the sampler orders them. residual stores what the blocks add;
// it may be nil.
func (j *job) evaluator(dev kernels.Backend, from, to int, residual *dit.Residual) (sampler.Model, error) {
	model, err := j.model(dev, weights.PipelineStage{})
	if err != nil {
		return nil, err
	}
	rows := &dit.Rows{Size: j.size, Given: j.givenFrames(), Residual: residual}
	for branch := from; branch < to; branch++ {
		for _, e := range j.batch {
			rows.Rows = append(rows.Rows, dit.BatchRow{Element: e, Branch: branch})
		}
	}
	return j.Evaluator(dev, model, rows)
}
