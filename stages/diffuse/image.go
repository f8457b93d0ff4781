package diffuse

import (
	"context"
	"errors"
	"fmt"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/sampler"
)

// The ways in which a network is conditioned on a row's references by inputs of their own.
const (
	imageHead = "i2v_head" // the first frame of the first reference begins the video
	imageTail = "i2v_tail" // the last frame of the first reference ends it
	imageLoop = "i2v_loop" // both; of two references the second's first frame ends it
	videoHead = "v2v_head" // the first condition_frame_length latent frames begin the video
)

// ImageTypes returns the names that Images.CondType may have.
func ImageTypes() []string { return []string{imageHead, imageTail, imageLoop, videoHead} }

// Images says that a row's references are given to the network by inputs of their own.
type Images struct {
	// CondType says which frames of the references are given, as one of ImageTypes.
	CondType string
	// Guide is how the sampler guides by them: Latents and Given are each element's own.
	Guide sampler.Image
}

// clipNumber is where a clip is in its video: its number, from 0, and how many there are.
type clipNumber struct{ clip, clips int }

// places returns the given latent frames of a clip of t frames, and the reference and its frame for each. A clip that
// goes on begins with the last reference, which is the end of the one before; what ends a video ends its last clip.
// (The reference's script lets i2v_loop end every clip but the first so, and i2v_tail none of several.)
func (o *Images) places(references []*stages.Array, t, length int, p clipNumber) (at []int, from [][2]int) {
	put := func(frame, reference, of int) {
		at, from = append(at, frame), append(from, [2]int{reference, of})
	}
	begin := func(reference, n int) {
		for i := range min(n, references[reference].Shape[1], t) {
			put(i, reference, i)
		}
	}
	own := len(references) // without the end of the clip before
	switch {
	case p.clip > 0:
		own--
		begin(own, length)
	case o.CondType == imageHead || o.CondType == imageLoop:
		begin(0, 1)
	case o.CondType == videoHead:
		begin(0, length)
	}
	if p.clip < p.clips-1 || own == 0 {
		return at, from
	}
	switch {
	case o.CondType == imageLoop && own > 1:
		put(t-1, 1, 0)
	case o.CondType == imageTail || o.CondType == imageLoop:
		put(t-1, 0, references[0].Shape[1]-1)
	}
	return at, from
}

// image returns the given frames of an element as the sampler takes them, and where they are: nowhere in the early
// clips of a video of which only the end is given.
func (s *stage) image(e *stages.Element, size Size, p clipNumber) (*sampler.Image, []int, error) {
	if len(e.References) == 0 {
		return nil, nil, s.notEncoded()
	}
	c := s.Channels
	for i, r := range e.References {
		if len(r.Shape) != 4 || r.Shape[0] != c || r.Shape[1] < 1 || r.Shape[2] != size.H || r.Shape[3] != size.W {
			return nil, nil, fmt.Errorf("reference %d has latents of shape %v, the clip of (%d, %d, %d, %d)",
				i, r.Shape, c, size.T, size.H, size.W)
		}
	}
	at, from := s.Conditions.Images.places(e.References, size.T, e.Row.ConditionFrameLength, p)
	if len(at) == 0 && p.clips == 1 {
		return nil, nil, errors.New("condition_frame_length is 0: give the latent frames that begin the video")
	}
	m := s.Conditions.Images.Guide
	m.Latents, m.Given = make([]float32, c*size.T*size.H*size.W), make([]bool, size.T)
	area := size.H * size.W
	for i, t := range at {
		m.Given[t] = true
		r := e.References[from[i][0]]
		for ch := range c {
			copy(m.Latents[(ch*size.T+t)*area:][:area], r.Data[(ch*r.Shape[1]+from[i][1])*area:])
		}
	}
	return &m, at, nil
}

// byImages reports whether a row's references are given by inputs of their own.
func (s *stage) byImages(row *schemas.PromptRow) bool {
	return s.Conditions.Images != nil && row.Reference != ""
}

// runImages samples the elements whose clip is conditioned on images, each as a batch of its own: their frames may be
// different ones. It returns the others.
func (m maker) runImages(ctx context.Context, batch []*stages.Element, p clipNumber) (rest []*stages.Element, err error) {
	var jobs []*job
	var whole []*stages.Element // of the jobs
	for _, e := range batch {
		if m.Conditions.Images == nil || e.Row.Reference == "" && p.clip == 0 {
			rest = append(rest, e)
			continue
		}
		image, at, err := m.image(e, m.Config.LatentSize(&e.Row), p)
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		one := *e // to the rest of the job an element without given frames
		one.References, one.Row.Reference = nil, ""
		if len(at) > 0 {
			one.Text = &stages.Text{Embedding: e.Text.Embedding} // under the null text
		}
		j, err := m.newJob([]*stages.Element{&one}, p.clip)
		if err != nil {
			return nil, err
		}
		if j == nil {
			e.Failed = one.Failed
			continue
		}
		if len(at) > 0 {
			j.image = image
		}
		jobs, whole = append(jobs, j), append(whole, e)
	}
	err = m.sampleEach(ctx, jobs)
	for i, j := range jobs {
		one := j.batch[0]
		whole[i].Latents, whole[i].LatentScale, whole[i].Failed = one.Latents, one.LatentScale, one.Failed
	}
	return rest, err
}

// given returns the frames that the network gets by inputs of their own, nil where there are none.
func (j *job) given() *Given {
	if j.image == nil {
		return nil
	}
	return &Given{Latents: j.image.Latents, Frames: j.image.Given}
}
