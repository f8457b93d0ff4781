package stdit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"latentbeam/internal/fault"
	"latentbeam/kernels"
	"latentbeam/schemas"
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
		return fmt.Errorf("cond_type is %q: only Open-Sora 1.3 takes images by inputs of their own; "+
			"give rows a mask_strategy", o.CondType)
	case !slices.Contains(known, o.CondType):
		return fmt.Errorf("cond_type is %q: give one of %v", o.CondType, known)
	case !(o.Scale >= 0 && o.Scale <= schemas.MaxGuidanceScale):
		return fmt.Errorf("image_cfg_scale is %g: give 0 to %d", o.Scale, schemas.MaxGuidanceScale)
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

// runImages samples the elements whose clip is conditioned on images, one after the other: their frames may be
// different ones. It returns the others.
func (s *stage) runImages(ctx context.Context, dev kernels.Backend, batch []*stages.Element, p place) (
	rest []*stages.Element, err error) {
	for _, e := range batch {
		if s.images.CondType == "" || e.Row.Reference == "" && p.clip == 0 {
			rest = append(rest, e)
			continue
		}
		image, at, err := s.image(e, s.Config.latentSize(&e.Row), p)
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		one := *e // to the rest of the job an element without given frames
		one.References, one.Row.Reference = nil, ""
		if len(at) == 0 {
			err = s.runClip(ctx, dev, []*stages.Element{&one}, p.clip)
		} else {
			one.Text = &stages.Text{Embedding: e.Text.Embedding} // under the null text
			err = s.runImage(ctx, dev, &one, image, at, p.clip)
		}
		if err != nil {
			return nil, err
		}
		e.Latents, e.LatentScale, e.Failed = one.Latents, one.LatentScale, one.Failed
	}
	return rest, nil
}

func (s *stage) runImage(ctx context.Context, dev kernels.Backend, e *stages.Element, image *sampler.Image,
	at []int, clip int) error {
	j, err := s.newJob([]*stages.Element{e}, clip)
	if err != nil || j == nil {
		return err
	}
	net, err := j.evaluation(dev)
	if err != nil {
		return err
	}
	defer dev.Scope()()
	if net.prepared, err = net.prepare([]row{{e, false}, {e, true}, {e, true}}); err != nil {
		return err
	}
	if err := s.giveImages(dev, net, image, at); err != nil {
		return err
	}
	z := make([]float32, j.values())
	j.start(z, e)
	b := sampler.Batch{N: 1, Channels: s.Config.InChannels, Size: len(z) / s.Config.InChannels, Frames: j.size.T,
		Image: image, Guidance: []float32{float32(e.Row.Guidance())}}
	noise := func(d sampler.Draw, _ int, dst []float32) { j.noise(dst, e, d) }
	if err := j.sampler.Sample(ctx, b, z, net.evaluate, noise, nil); err != nil {
		return err
	}
	j.finish(e, z)
	return nil
}

// giveImages gives the network the frames: the first two branches see them, the third does not.
func (s *stage) giveImages(dev kernels.Backend, net *evaluation, image *sampler.Image, at []int) error {
	where := make([]float32, len(image.Latents))
	area := net.size.H * net.size.W
	for i := range where {
		if image.Given[i/area%net.size.T] {
			where[i] = 1
		}
	}
	none := make([]float32, len(where))
	upload := func(branches ...[]float32) kernels.Tensor { // (3, C, T, H, W)
		x := dev.Alloc(kernels.F32, len(branches), s.Config.InChannels, net.size.T, net.size.H, net.size.W)
		dev.Upload(x, slices.Concat(branches...))
		return x
	}
	cond, mask := upload(image.Latents, image.Latents, none), upload(where, where, where)
	return net.model.Condition(dev, net.prepared, cond, mask, at)
}
