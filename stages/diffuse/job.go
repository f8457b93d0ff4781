package diffuse

import (
	"latentbeam/internal/rng"
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
}

// newJob fails the elements whose text does not fit; a nil job means that none is left.
func (s *stage) newJob(batch []*stages.Element, clip int) (*job, error) {
	if batch = s.checkTexts(batch); len(batch) == 0 {
		return nil, nil
	}
	row := &batch[0].Row
	size := s.Config.LatentSize(row)
	batch, masks := s.condition(batch, size, clip)
	if len(batch) == 0 {
		return nil, nil
	}
	plan, err := s.recipe.New(row.NumInferenceSteps, s.clip(row))
	return &job{s, batch, plan, size, guided(row), clip, masks, nil}, err
}

// channels times frames: how many planes of H x W an element's latents have.
func (j *job) planes() int { return j.Channels * j.size.T }

// values is the length of one element's latents.
func (j *job) values() int { return j.planes() * j.size.H * j.size.W }

// start writes the initial latents (C, T, H, W) of an element: noise, and the frames that are given.
func (j *job) start(dst []float32, e *stages.Element) {
	rng.Normals(dst, uint64(*e.Row.Seed), uint32(e.Row.SampleIndex), rng.Clip(j.clip), 0)
	if isGiven(e) {
		z := &stages.Array{Shape: []int{j.Channels, j.size.T, j.size.H, j.size.W}, Data: dst}
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
	shape := []int{j.Channels, j.size.T, j.size.H, j.size.W}
	e.Latents = &stages.Array{Shape: shape, Data: z}
	e.LatentScale = j.LatentScale
}
