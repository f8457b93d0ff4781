package stdit

import (
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// TestImagePlaces: which frames of which reference are given, as scripts/inference_i2v.py places them.
func TestImagePlaces(t *testing.T) {
	refs := func(frames ...int) (out []*stages.Array) {
		for _, n := range frames {
			out = append(out, stages.NewArray(1, n, 1, 1))
		}
		return out
	}
	for _, c := range []struct {
		condType string
		refs     []*stages.Array
		want     string
		place    place
	}{
		{imageHead, refs(5), "[0] [[0 0]]", place{0, 1}}, {imageTail, refs(5), "[9] [[0 4]]", place{0, 1}},
		{imageLoop, refs(5), "[0 9] [[0 0] [0 4]]", place{0, 1}}, {imageLoop, refs(5, 3), "[0 9] [[0 0] [1 0]]", place{0, 1}},
		{videoHead, refs(5), "[0 1 2] [[0 0] [0 1] [0 2]]", place{0, 1}}, {videoHead, refs(2), "[0 1] [[0 0] [0 1]]", place{0, 1}},
		{imageTail, refs(1), "[9] [[0 0]]", place{0, 1}},
		// Clips that go on have the end of the one before as the last reference, here of 3 frames.
		{imageHead, refs(1), "[0] [[0 0]]", place{0, 2}},
		{imageHead, refs(1, 3), "[0 1 2] [[1 0] [1 1] [1 2]]", place{1, 2}},
		{imageLoop, refs(1), "[0] [[0 0]]", place{0, 3}},
		{imageLoop, refs(1, 3), "[0 1 2] [[1 0] [1 1] [1 2]]", place{1, 3}},
		{imageLoop, refs(4, 3), "[0 1 2 9] [[1 0] [1 1] [1 2] [0 3]]", place{2, 3}},
		{imageLoop, refs(4, 2, 3), "[0 1 2 9] [[2 0] [2 1] [2 2] [1 0]]", place{2, 3}},
		{imageTail, refs(4), "[] []", place{0, 2}},
		{imageTail, refs(4, 3), "[0 1 2 9] [[1 0] [1 1] [1 2] [0 3]]", place{1, 2}},
		{videoHead, refs(5), "[0 1 2] [[0 0] [0 1] [0 2]]", place{0, 2}},
		{imageTail, refs(3), "[0 1 2] [[0 0] [0 1] [0 2]]", place{1, 2}}, // without a reference of its own
	} {
		at, from := imageOptions{CondType: c.condType}.places(c.refs, 10, 3, c.place)
		if got := fmt.Sprint(at, from); got != c.want {
			t.Errorf("%s, clip %v: %s, want %s", c.condType, c.place, got, c.want)
		}
	}
}

func TestImageOptions(t *testing.T) {
	no := false
	for _, c := range []struct {
		o    imageOptions
		v    Version
		want string
	}{
		{imageOptions{}, OpenSora10, ""}, {imageOptions{CondType: imageHead}, OpenSora13, ""},
		{imageOptions{CondType: imageHead}, OpenSora12, "only Open-Sora 1.3 takes images"},
		{imageOptions{CondType: "i2v"}, OpenSora13, "give one of [i2v_head i2v_tail"},
		{imageOptions{Scale: 3}, OpenSora13, "of no use without cond_type"},
		{imageOptions{SDEdit: &no}, OpenSora13, "of no use without cond_type"},
		{imageOptions{CondType: imageTail, Scale: -1}, OpenSora13, "image_cfg_scale is -1"},
	} {
		nntest.WantError(t, fmt.Sprintf("%+v", c.o), c.o.fill(c.v), c.want)
	}
	o := imageOptions{CondType: imageHead, SDEdit: &no}
	if err := o.fill(OpenSora13); err != nil || o.Scale != 5 || *o.SDEdit {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestImages: an element that is conditioned on images follows them, alone and in a batch, with and without a
// negative prompt; others are what they were.
func TestImages(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		if cfg.Version != OpenSora13 {
			continue
		}
		s := testStage(t, cfg)
		s.images = imageOptions{CondType: imageLoop}
		if err := s.images.fill(cfg.Version); err != nil {
			t.Fatal(err)
		}
		batch := func() []*stages.Element { return batchOf(cfg, 3, 33, 32, 48, 3, 4) }
		reference := func(e *stages.Element, name string) {
			shape := []int{cfg.InChannels, 2, 4, 6}
			e.Row.Reference = name
			e.References = []*stages.Array{{Shape: shape, Data: nntest.Hash(name, 1, shape...)}}
		}
		run := func(batch []*stages.Element) {
			t.Helper()
			if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
				t.Fatal(err)
			}
			digest(t, batch)
		}
		free, red, blue := batch(), batch(), batch()
		for i := range free {
			reference(red[i], "red")
			reference(blue[i], "blue")
		}
		blue[1].Text.Negative = nil
		run(free)
		run(red)
		run(blue)
		alone := batch()[2:]
		reference(alone[0], "red")
		run(alone)
		if !slices.Equal(alone[0].Latents.Data, red[2].Latents.Data) {
			t.Errorf("%s: an element depends on its neighbours", cfg.name())
		}
		if slices.Equal(red[0].Latents.Data, blue[0].Latents.Data) ||
			slices.Equal(red[0].Latents.Data, free[0].Latents.Data) {
			t.Errorf("%s: the image does not count", cfg.name())
		}
		same := batch()
		same[1].Text.Negative = nil
		for i := range same {
			reference(same[i], "red")
		}
		if run(same); !slices.Equal(same[1].Latents.Data, red[1].Latents.Data) || len(same[1].References) != 1 ||
			same[1].Row.Reference != "red" {
			t.Errorf("%s: a negative prompt counts, or the element has changed", cfg.name())
		}
		if err := s.checkCondition(&schemas.PromptRow{Reference: "red"}); err != nil {
			t.Errorf("%s: without a mask strategy: %v", cfg.name(), err)
		}
		bad := batch()[:1]
		bad[0].Row.Reference = "red"
		if err := s.Run(t.Context(), cpu.New(1), bad); err != nil {
			t.Fatal(err)
		}
		nntest.WantError(t, "not encoded", failure(bad[0]), "put `- encode_reference: {}` before denoise")
	}
}

// TestImageClips: the second clip of a video is what images alone would make of the end of the first and of the
// image that ends it, with noise of its own; the first of a video whose end is given is made of the text.
func TestImageClips(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		if cfg.Version != OpenSora13 {
			continue
		}
		s := testStage(t, cfg)
		s.images = imageOptions{CondType: imageTail}
		if err := s.images.fill(cfg.Version); err != nil {
			t.Fatal(err)
		}
		shape := []int{cfg.InChannels, 1, 4, 6}
		tail := &stages.Array{Shape: shape, Data: nntest.Hash("tail", 1, shape...)}
		batch := batchOf(cfg, 2, 33, 32, 48, 2, 4)
		for i, e := range batch {
			e.Row.Loop, e.Row.ConditionFrameLength = 2, 5
			if i == 0 {
				e.Row.Reference, e.References = "tail.png", []*stages.Array{tail}
			}
		}
		free := batchOf(cfg, 2, 33, 32, 48, 2, 4)
		for _, b := range [][]*stages.Element{batch, free} {
			if err := s.Run(t.Context(), cpu.New(1), b); err != nil {
				t.Fatal(err)
			}
			digest(t, b)
		}
		for i, e := range batch {
			first, second := clipOf(e.Latents, 0, 2), clipOf(e.Latents, 1, 2)
			if !slices.Equal(first.Data, free[i].Latents.Data) {
				t.Errorf("%s: the first clip of element %d is not that of its text", cfg.name(), i)
			}
			one := *batchOf(cfg, 2, 33, 32, 48, 2, 4)[i]
			one.Row.ConditionFrameLength = 5
			one.References = append(slices.Clone(e.References), s.ending(first, 5))
			image, at, err := s.image(&one, cfg.latentSize(&one.Row), place{1, 2})
			if err != nil || len(at) != 6-i {
				t.Fatal(at, err)
			}
			one.References, one.Text.Negative = nil, nil
			j, err := s.newJob([]*stages.Element{&one}, 1)
			if err != nil {
				t.Fatal(err)
			}
			j.image = &imageInput{*image, at}
			if err := j.alone(t.Context(), cpu.New(1)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(one.Latents.Data, second.Data) {
				t.Errorf("%s: the second clip of element %d is not that of its images", cfg.name(), i)
			}
		}
	}
}
