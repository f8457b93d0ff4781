package diffuse

import (
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
)

// TestImageClips: the second clip of a video equals an image-to-video clip from the end of the first clip and the given end
// image, with its own noise. The first clip of a video whose end is given is made from the text.
func TestImageClips(t *testing.T) {
	s := plainStage(t, func(o *plainOptions) { o.CondType = "i2v_tail" })
	shape := []int{2, 1, 4, 6}
	tail := &stages.Array{Shape: shape, Data: nntest.Hash("tail", 1, shape...)}
	batch := batchOf(2, 33, 4)
	for i, e := range batch {
		e.Row.Loop, e.Row.ConditionFrameLength = 2, 5
		if i == 0 {
			e.Row.Reference, e.References = "tail.png", []*stages.Array{tail}
		}
	}
	free := batchOf(2, 33, 4)
	for _, b := range [][]*stages.Element{batch, free} {
		if err := s.Run(t.Context(), cpu.New(1), b); err != nil {
			t.Fatal(err)
		}
		digest(t, b)
	}
	for i, e := range batch {
		first, second := clipOf(e.Latents, 0, 2), clipOf(e.Latents, 1, 2)
		if !slices.Equal(first.Data, free[i].Latents.Data) {
			t.Errorf("the first clip of element %d is not that of its text", i)
		}
		one := *batchOf(2, 33, 4)[i]
		one.Row.ConditionFrameLength = 5
		one.References = append(slices.Clone(e.References), s.lastFrames(first, 5))
		image, err := s.image(&one, s.Config.LatentSize(&one.Row), 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(slices.DeleteFunc(slices.Clone(image.Given), func(given bool) bool { return !given })); n != 6-i {
			t.Fatalf("%d frames of element %d are given", n, i)
		}
		one.References, one.Text.Negative = nil, nil
		j, err := s.newJob([]*stages.Element{&one}, 1)
		if err != nil {
			t.Fatal(err)
		}
		j.image = image
		if err := (maker{stage: s, dev: cpu.New(1)}).sample(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one.Latents.Data, second.Data) {
			t.Errorf("the second clip of element %d is not that of its images", i)
		}
	}
}

// TestNoiseOfItsOwn: every clip, every step and the noise on given frames use different random numbers.
func TestNoiseOfItsOwn(t *testing.T) {
	s := plainStage(t, nil)
	batch := batchOf(1, 33, 4)
	seen := map[float32]string{}
	for clip := range 3 {
		j, err := s.newJob(batch, clip)
		if err != nil {
			t.Fatal(err)
		}
		z := make([]float32, j.values())
		note := func(what string) {
			t.Helper()
			if was, ok := seen[z[0]]; ok {
				t.Errorf("clip %d: %s has the noise of %s", clip, what, was)
			}
			seen[z[0]] = fmt.Sprint("clip ", clip, ": ", what)
		}
		j.start(z, batch[0])
		note("the start")
		for step := range 2 {
			for _, given := range []bool{false, true} {
				portion{job: j}.noise()(sampler.Draw{Step: step, Given: given}, 0, z)
				note(fmt.Sprint("step ", step, given))
			}
		}
	}
}

// clipOf returns clip number n of so many in the latents of an element.
func clipOf(a *stages.Array, n, clips int) *stages.Array {
	t := a.Shape[1] / clips
	out := stages.NewArray(a.Shape[0], t, a.Shape[2], a.Shape[3])
	size := t * a.Shape[2] * a.Shape[3]
	for c := range a.Shape[0] {
		copy(out.Data[c*size:][:size], a.Data[(c*clips+n)*size:])
	}
	return out
}
