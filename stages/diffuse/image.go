package diffuse

import (
	"context"
	"errors"
	"fmt"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/condition"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
)

// image returns the given frames of an element in a clip, for the sampler. It returns nil for the early clips of a video if
// only the end of the video is given.
func (s *stage) image(e *stages.Element, size dit.LatentSize, clip, clips int) (*sampler.Image, error) {
	if len(e.References) == 0 {
		return nil, s.notEncoded()
	}
	for i, r := range e.References {
		if len(r.Shape) != 4 || r.Shape[0] != s.Channels || r.Shape[1] < 1 || r.Shape[2] != size.H || r.Shape[3] != size.W {
			return nil, fmt.Errorf("reference %d has latents of shape %v, the clip of (%d, %d, %d, %d)",
				i, r.Shape, s.Channels, size.T, size.H, size.W)
		}
	}
	m, z := s.Conditions.Images.Guide, stages.NewArray(s.Shape(size)...)
	m.Latents = z.Data
	m.Given = condition.Images(z, s.Conditions.Images.CondType, e.References, e.Row.ConditionFrameLength, clip, clips)
	switch {
	case m.Given != nil:
		return &m, nil
	case clips == 1:
		return nil, errors.New("condition_frame_length is 0: give the latent frames that begin the video")
	}
	return nil, nil
}

// byImages reports whether the network takes a row's references as separate inputs.
func (s *stage) byImages(row *schemas.PromptRow) bool {
	return s.Conditions.Images != nil && row.Reference != ""
}

// runImages samples the elements whose clip is conditioned on images, each as its own batch, because their given frames may
// differ. It returns the other elements.
func (m maker) runImages(ctx context.Context, batch []*stages.Element, clip, clips int) (rest []*stages.Element, err error) {
	var jobs []*job
	var whole []*stages.Element // of the jobs
	for _, e := range batch {
		if m.Conditions.Images == nil || e.Row.Reference == "" && clip == 0 {
			rest = append(rest, e)
			continue
		}
		image, err := m.image(e, m.Config.LatentSize(&e.Row), clip, clips)
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		one := *e // elements without given frames must be unknown to the rest of the job
		one.References, one.Row.Reference = nil, ""
		if image != nil {
			one.Text = &stages.Text{Embedding: e.Text.Embedding} // with the null text
		}
		j, err := m.newJob([]*stages.Element{&one}, clip)
		if err != nil {
			return nil, err
		}
		if j == nil {
			e.Failed = one.Failed
			continue
		}
		j.image = image
		jobs, whole = append(jobs, j), append(whole, e)
	}
	err = m.sampleEach(ctx, jobs)
	for i, j := range jobs {
		one := j.batch[0]
		whole[i].Latents, whole[i].LatentScale, whole[i].Readings, whole[i].Failed = one.Latents, one.LatentScale, one.Readings, one.Failed
	}
	return rest, err
}

// givenFrames returns the frames that the network takes as separate inputs, nil if there are none.
func (j *job) givenFrames() *dit.Given {
	if j.image == nil {
		return nil
	}
	return &dit.Given{Latents: j.image.Latents, Frames: j.image.Given}
}
