package diffuse

import (
	"context"

	"latentbeam/stages"
	"latentbeam/stages/sampler"
)

// job is one batch under its sampler.
type job struct {
	*stage
	batch   []*stages.Element
	sampler sampler.Sampler
	size    Size
	guided  bool
	clip    int            // its number in a longer video
	masks   []float32      // edit ratio of every frame of every element, n x T; nil: no frame is given
	image   *sampler.Image // frames given by inputs of their own; nil: none
	plans   *plans
	done    int                           // steps that an earlier process has done, the same of all elements
	expert  int                           // which of two denoisers is due
	noises  map[*stages.Element][]float32 // that replace the generator's, of elements that have their own
}

// newJob fails the elements whose text does not fit; a nil job means that none is left.
func (s *stage) newJob(batch []*stages.Element, clip int) (*job, error) {
	if batch = s.checkTexts(batch); len(batch) == 0 {
		return nil, nil
	}
	row := &batch[0].Row
	size := s.Config.LatentSize(row)
	batch, noises := s.readNoises(batch, size)
	batch, masks := s.condition(batch, size, clip)
	if len(batch) == 0 {
		return nil, nil
	}
	plan, err := s.recipe.New(row.NumInferenceSteps, s.clip(row))
	return &job{stage: s, batch: batch, sampler: plan, size: size, guided: guided(row), clip: clip, masks: masks,
		plans: &plans{}, noises: noises, done: doneOf(batch[0], clip)}, err
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

// channels times frames: how many planes of H x W an element's latents have.
func (j *job) planes() int { return j.Channels * j.size.T }

// values is the length of one element's latents.
func (j *job) values() int { return j.planes() * j.size.H * j.size.W }
