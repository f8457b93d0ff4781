package stdit

import (
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

func TestImageOptions(t *testing.T) {
	no := false
	for _, c := range []struct {
		o    imageOptions
		v    Version
		want string
	}{
		{imageOptions{}, OpenSora10, ""}, {imageOptions{CondType: "i2v_head"}, OpenSora13, ""},
		{imageOptions{CondType: "i2v_head"}, OpenSora12, "only Open-Sora 1.3 takes images"},
		{imageOptions{CondType: "i2v"}, OpenSora13, "give one of [i2v_head i2v_tail"},
		{imageOptions{Scale: 3}, OpenSora13, "of no use without cond_type"},
		{imageOptions{SDEdit: &no}, OpenSora13, "of no use without cond_type"},
		{imageOptions{CondType: "i2v_tail", Scale: -1}, OpenSora13, "image_cfg_scale is -1"},
	} {
		nntest.WantError(t, fmt.Sprintf("%+v", c.o), c.o.fill(c.v), c.want)
	}
	o := imageOptions{CondType: "i2v_head", SDEdit: &no}
	if err := o.fill(OpenSora13); err != nil || o.Scale != 5 || *o.SDEdit {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestImages: images change an element that is conditioned on them, alone and in a batch, with and without a negative prompt;
// other elements do not change.
func TestImages(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		if cfg.Version != OpenSora13 {
			continue
		}
		s := testStage(t, cfg)
		s.images = imageOptions{CondType: "i2v_loop"}
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
		row := same[0].Row
		if err := s.Check(&row); row.Reference == "" || row.MaskStrategy != "" || err != nil {
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
