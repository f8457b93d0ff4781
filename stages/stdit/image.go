package stdit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/sampler"
)

// The ways in which Open-Sora 1.3 is conditioned on a row's references by its image inputs, as cond_type names
// them; without one the mask strategy holds, as in the versions before.
const (
	imageHead = "i2v_head" // the first frame of the first reference begins the video
	imageTail = "i2v_tail" // the last frame of the first reference ends it
	imageLoop = "i2v_loop" // both; of two references the second's first frame ends it
	videoHead = "v2v_head" // the first condition_frame_length latent frames begin the video
)

// imageOptions are those of conditioning by images.
type imageOptions struct {
	// CondType says which frames of the references are given; "" leaves it to the rows' mask strategies.
	CondType string
	// Scale is the guidance scale of the given frames.
	Scale float64
	// SDEdit starts every step from the given frames with the step's noise.
	SDEdit *bool
}

// fill checks the options and gives them the values of the published configuration (v2v.py).
func (o *imageOptions) fill(v Version) error {
	known := []string{imageHead, imageTail, imageLoop, videoHead}
	switch {
	case o.CondType == "" && (o.Scale != 0 || o.SDEdit != nil):
		return fmt.Errorf("image_cfg_scale and use_sdedit are of no use without cond_type: give one of %v", known)
	case o.CondType == "":
		return nil
	case v != OpenSora13:
		return stages.Errorf("cond_type", "cond_type is %q: only Open-Sora 1.3 takes images by inputs of their own; "+
			"give rows a mask_strategy", o.CondType)
	case !slices.Contains(known, o.CondType):
		return stages.Errorf("cond_type", "cond_type is %q: give one of %v", o.CondType, known)
	case !(o.Scale >= 0 && o.Scale <= schemas.MaxGuidanceScale):
		return stages.Errorf("image_cfg_scale", "image_cfg_scale is %g: give 0 to %d", o.Scale, schemas.MaxGuidanceScale)
	}
	if o.Scale == 0 {
		o.Scale = 5
	}
	if o.SDEdit == nil {
		yes := true
		o.SDEdit = &yes
	}
	return nil
}

// place is where a clip is in its video: its number, from 0, and how many there are.
type place struct{ clip, clips int }

// places returns which latent frames of a clip of t are given, and by which frame of which reference. A clip that
// goes on begins with the last reference, which is the end of the one before; what ends a video ends its last clip.
// (The reference's script lets i2v_loop end every clip but the first so, and i2v_tail none of several.)
func (o imageOptions) places(references []*stages.Array, t, length int, p place) (at []int, from [][2]int) {
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
func (s *stage) image(e *stages.Element, size Size, p place) (*sampler.Image, []int, error) {
	if len(e.References) == 0 {
		return nil, nil, errNotEncoded
	}
	c := s.Config.InChannels
	for i, r := range e.References {
		if len(r.Shape) != 4 || r.Shape[0] != c || r.Shape[1] < 1 || r.Shape[2] != size.H || r.Shape[3] != size.W {
			return nil, nil, fmt.Errorf("reference %d has latents of shape %v, the clip of (%d, %d, %d, %d)",
				i, r.Shape, c, size.T, size.H, size.W)
		}
	}
	at, from := s.images.places(e.References, size.T, e.Row.ConditionFrameLength, p)
	if len(at) == 0 && p.clips == 1 {
		return nil, nil, errors.New("condition_frame_length is 0: give the latent frames that begin the video")
	}
	m := &sampler.Image{Latents: make([]float32, c*size.T*size.H*size.W), Given: make([]bool, size.T),
		Scale: float32(s.images.Scale), Ramp: true, Oscillate: true, Renoise: *s.images.SDEdit}
	area := size.H * size.W
	for i, t := range at {
		m.Given[t] = true
		r := e.References[from[i][0]]
		for ch := range c {
			copy(m.Latents[(ch*size.T+t)*area:][:area], r.Data[(ch*r.Shape[1]+from[i][1])*area:])
		}
	}
	return m, at, nil
}

// byImages reports whether a row's references are given by inputs of their own.
func (s *stage) byImages(row *schemas.PromptRow) bool {
	return s.images.CondType != "" && row.Reference != ""
}

// imageInput is how a network is given frames, and which frames they are.
type imageInput struct {
	sampler.Image
	at []int
}

// runImages samples the elements whose clip is conditioned on images, each as a batch of its own: their frames may be
// different ones. It returns the others.
func (m maker) runImages(ctx context.Context, batch []*stages.Element, p place) (rest []*stages.Element, err error) {
	var jobs []*job
	var whole []*stages.Element // of the jobs
	for _, e := range batch {
		if m.images.CondType == "" || e.Row.Reference == "" && p.clip == 0 {
			rest = append(rest, e)
			continue
		}
		image, at, err := m.image(e, m.Config.latentSize(&e.Row), p)
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
			j.image = &imageInput{*image, at}
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

// give gives the network the frames: the first two branches see them, the third does not.
func (r *evaluation) give(p *Prepared, rows []row) error {
	where, none := make([]float32, len(r.image.Latents)), make([]float32, len(r.image.Latents))
	area := r.size.H * r.size.W
	for i := range where {
		if r.image.Given[i/area%r.size.T] {
			where[i] = 1
		}
	}
	var seen, places []float32
	for _, row := range rows {
		if places = append(places, where...); row.branch == 2 {
			seen = append(seen, none...)
		} else {
			seen = append(seen, r.image.Latents...)
		}
	}
	upload := func(values []float32) kernels.Tensor { // (B, C, T, H, W)
		x := r.dev.Alloc(kernels.F32, len(rows), r.model.InChannels, r.size.T, r.size.H, r.size.W)
		r.dev.Upload(x, values)
		return x
	}
	return r.model.Condition(r.dev, p, upload(seen), upload(places), r.image.at)
}

// of is what the sampler of some shares of the element takes; planes is channels times frames.
func (m *imageInput) of(shares []share, planes int) *sampler.Image {
	own := m.Image
	own.Latents = nil
	for _, s := range shares {
		part := make([]float32, planes*len(s.pixels))
		s.pick(part, m.Latents, planes)
		own.Latents = append(own.Latents, part...)
	}
	if len(shares) == 0 { // one pixel stands in
		own.Latents = make([]float32, planes)
	}
	return &own
}
