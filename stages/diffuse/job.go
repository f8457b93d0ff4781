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

// job is one batch under its sampler.
type job struct {
	*stage
	batch   []*stages.Element
	sampler sampler.Sampler
	size    dit.LatentSize
	guided  bool
	clip    int            // its number in a longer video
	masks   []float32      // edit ratio of every frame of every element, n x T; nil: no frame is given
	image   *sampler.Image // frames given by inputs of their own; nil: none
	plans   *plans
	done    int                           // steps that an earlier process has done, the same of all elements
	expert  int                           // which of two denoisers is due
	noises  map[*stages.Element][]float32 // that replace the generator's, of elements that have their own
}

// newJob fails the elements that do not fit; a nil job means that none is left.
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

// add takes an element whose texts, noise and given frames fit.
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

// progress tells whoever follows the job how many steps of all clips are done.
func (j *job) progress(ctx context.Context) func(done, total int) {
	tell, clips := stages.Progress(ctx), max(1, j.batch[0].Row.Loop)
	return func(done, total int) { tell(j.clip*total+done, clips*total) }
}

// branches is how many rows of the forward an element has.
func (j *job) branches() int {
	switch {
	case j.image != nil:
		return 3
	case j.guided:
		return 2
	}
	return 1
}

// steps is how many are left to do.
func (j *job) steps() int { return j.sampler.Steps() - j.done }

// planes is how many planes of H x W an element's latents have.
func (j *job) planes() int { return j.Channels * j.size.T }

// values is the length of one element's latents.
func (j *job) values() int { return j.Channels * j.size.Len() }

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
		_, _ = j.insertGiven(&stages.Array{Shape: j.Shape(j.size), Data: dst}, e, j.clip) // newJob has seen that it can be done
	}
}

// draw writes the normals (C, T, H, W) of an element for a number in its clip.
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

// latents are those of element i among those of all.
func (j *job) latents(z []float32, i int) *stages.Array {
	n := j.values()
	return &stages.Array{Shape: j.Shape(j.size), Data: z[i*n : (i+1)*n : (i+1)*n]}
}

// model returns the denoiser that is due, on a device.
func (j *job) model(dev kernels.Backend, stage weights.PipelineStage) (*loaded, error) {
	if j.expert == 1 {
		return j.experts.second.Part(dev, stage)
	}
	return j.Part(dev, stage)
}

// evaluator returns the network for the branches from ... to - 1, on a device that has all of the batch, prepared in the scope open at the
// call. Rows go branch by branch, as the sampler orders them. residual keeps what the blocks add; nil: nothing does.
func (j *job) evaluator(dev kernels.Backend, from, to int, residual *dit.Residual) (sampler.Model, error) {
	model, err := j.model(dev, weights.PipelineStage{})
	if err != nil {
		return nil, err
	}
	rows := &dit.Rows{Size: j.size, Given: j.given(), Residual: residual}
	for branch := from; branch < to; branch++ {
		for _, e := range j.batch {
			rows.Rows = append(rows.Rows, dit.BatchRow{Element: e, Branch: branch})
		}
	}
	return j.Evaluator(dev, model, rows)
}
