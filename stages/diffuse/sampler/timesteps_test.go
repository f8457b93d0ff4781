package sampler

import (
	"context"
	"math"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// TestFlowTimesteps compares 30 shifted timesteps of Open-Sora 1.2 with the reference's, with size tensors in
// fp32 and in bf16, where 240 x 426 is 102400 and the root of 15 is 3.875.
func TestFlowTimesteps(t *testing.T) {
	var golden struct {
		Cases []struct {
			Height, Width int
			NumFrames     int `json:"num_frames"`
			DType         string
			First, Last   []float64
		}
	}
	data, ok := nntest.OpenSora(t, "../../../testdata/golden/open-sora.json")["rflow_timesteps_30"]
	if !ok {
		t.Skip("the golden file has no case rflow_timesteps_30")
	}
	if nntest.Decode(t, data, &golden); len(golden.Cases) == 0 {
		t.Fatal("no cases")
	}
	recipe, err := OpenSora("1.2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range golden.Cases {
		s, err := recipe.New(30, VideoSize{c.Height, c.Width, c.NumFrames, c.DType == "bf16"})
		if err != nil {
			t.Fatal(err)
		}
		got := s.(*RectifiedFlow).Timesteps()
		for i, want := range c.First {
			near(t, float64(got[i]), want)
		}
		for i, want := range c.Last {
			near(t, float64(got[len(got)-len(c.Last)+i]), want)
		}
	}
}

func near(t *testing.T, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*want+1e-9 {
		t.Errorf("timestep %.8g, want %.8g", got, want)
	}
}

// TestRecipes: a recipe that cannot be sampled is an error that starts with the parameter's name.
func TestRecipes(t *testing.T) {
	for _, c := range []struct {
		version string
		steps   int
		frames  int
		want    string
	}{
		{"1.0", 1, 16, "num_inference_steps is 1: give 2 to 1000"}, {"1.1", 1001, 16, "num_inference_steps is 1001"},
		{"1.0", 2, 2, ""}, {"1.2", 1, 17, ""}, {"1.2", 0, 17, "num_inference_steps is 0: give 1 to 1000"},
		{"1.2", 30, 16, "num_frames is 16: give 1, or 17 or more"}, {"1.2", 30, 1, ""},
		{"1.3", 30, 4, "num_frames is 4: give 1, or 5 or more"}, {"1.3", 30, 5, ""},
	} {
		r, err := OpenSora(c.version)
		if err != nil {
			t.Fatal(err)
		}
		clip := VideoSize{Height: 64, Width: 64, Frames: c.frames}
		err = r.Check(c.steps, clip)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("Open-Sora %s, %d steps, %d frames: %v, want %q", c.version, c.steps, c.frames, err, c.want)
		}
		if s, newErr := r.New(c.steps, clip); (newErr == nil) != (err == nil) || newErr == nil && s == nil {
			t.Errorf("New says %v, Check %v", newErr, err)
		}
	}
	if _, err := OpenSora("2.0"); err == nil {
		t.Error("Open-Sora 2.0 has a recipe")
	}
}

// TestSharesOfElements: elements that are split into shares of different sizes have the same bits as whole ones, if no
// statistic is computed over an element.
func TestSharesOfElements(t *testing.T) {
	recipe, _ := OpenSora("1.2")
	s, err := recipe.New(5, VideoSize{64, 64, 17, false})
	if err != nil {
		t.Fatal(err)
	}
	const n, channels, frames, area = 2, 2, 3, 4
	masks := []float32{1, 0, .5, .25, 1, 1}
	value := func(e, c, f, i int) float32 { return float32(math.Sin(float64(e*97 + c*31 + f*11 + i))) }
	run := func(from, to int) []float32 { // positions of a frame
		w := to - from
		fill := func(dst []float32, e int, of func(e, c, f, i int) float32) {
			for j := range dst {
				dst[j] = of(e, j/(frames*w), j/w%frames, from+j%w)
			}
		}
		z := make([]float32, n*channels*frames*w)
		for e := range n {
			fill(z[e*channels*frames*w:][:channels*frames*w], e, value)
		}
		noise := func(d Draw, e int, dst []float32) {
			fill(dst, e, func(e, c, f, i int) float32 { return value(e+d.Step+5, c, f, i) })
		}
		b := Batch{N: n, Channels: channels, Frames: frames, Sizes: []int{frames * w, frames * w}, Masks: masks,
			Guidance: []float32{3, 1}}
		if err := s.Sample(t.Context(), b, z, double, noise, nil); err != nil {
			t.Fatal(err)
		}
		return z
	}
	whole, left, right := run(0, area), run(0, 1), run(1, area)
	for i, v := range whole {
		at, share, w := i%area, left, 1
		if at >= 1 {
			at, share, w = at-1, right, area-1
		}
		if got := share[i/area*w+at]; got != v {
			t.Fatalf("value %d is %g in a share and %g in the whole", i, got, v)
		}
	}
}

// double answers with twice the input at every position, as prediction and as variance.
func double(_ context.Context, rows, timesteps []float32, _ []bool) ([]float32, error) {
	out := make([]float32, 2*len(rows))
	width := len(rows) / len(timesteps)
	for i, x := range rows {
		out[i+i/width*width] = x * timesteps[i/width] / 500
	}
	return out, nil
}
