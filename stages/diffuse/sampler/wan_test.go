package sampler

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// wanRun is one run of a scheduler of diffusers over the toy network of testdata/golden/sampler.json.
type wanRun struct {
	Solver, Sigmas string
	Shift          float64
	Shape          []int // (n, C, T, H, W)
	Steps          int
	Guidance       *float32
	Timesteps      []float32
	Levels         []float32
	Out            []float32
}

// TestWanGolden runs the solvers of Wan against diffusers' own.
func TestWanGolden(t *testing.T) {
	cases := nntest.Golden(t, "../../../testdata/golden/wan-sampler.json")
	maps.Copy(cases, nntest.Golden(t, "../../../testdata/golden/wan-distilled.json"))
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			var c wanRun
			nntest.Decode(t, cases[name], &c)
			c.check(t)
		})
	}
}

// batch is what the run samples.
func (c *wanRun) batch() Batch {
	n, frames := c.Shape[0], c.Shape[2]
	b := Batch{N: n, Channels: c.Shape[1], Frames: frames, Size: frames * c.Shape[3] * c.Shape[4]}
	if c.Guidance != nil {
		b.Guidance = slices.Repeat([]float32{*c.Guidance}, n)
	}
	return b
}

// fresh is the noise of the steps of DMD; the others draw none.
func (c *wanRun) fresh(d Draw, element int, dst []float32) {
	copy(dst, nntest.Hash(fmt.Sprint("fresh.", d.Step), 1.7, c.Shape[0]*len(dst))[element*len(dst):])
}

func (c *wanRun) check(t *testing.T) {
	b := c.batch()
	toy, z := &toyNetwork{batch: b}, nntest.Hash("noise.init", 1.7, c.Shape...)
	s := wanSampler(t, WanConfig{Solver: c.Solver, Sigmas: c.Sigmas, Shift: c.Shift}, c.Steps)
	if err := s.Sample(t.Context(), b, z, toy.evaluate, c.fresh, nil); err != nil {
		t.Fatal(err)
	}
	diff, largest := nntest.MaxDiff(z, c.Out)
	t.Logf("largest difference %.2g of %.3g", diff, largest)
	if diff > 1e-5*largest {
		t.Errorf("differs by %g from the reference", diff)
	}
	if at, _ := nntest.MaxDiff(toy.timesteps, c.Timesteps); at > 1e-4 {
		t.Errorf("timesteps %v, want %v", toy.timesteps, c.Timesteps)
	}
	var levels []float32
	switch s := s.(type) {
	case *UniPC:
		for _, sigma := range s.sigmas {
			levels = append(levels, float32(sigma))
		}
	case *FlowEuler:
		levels = s.sigmas
	case *FlowDMD:
		levels = s.sigmas
	}
	if at, _ := nntest.MaxDiff(levels, c.Levels); at > 1e-7 {
		t.Errorf("noise levels %v, want %v", levels, c.Levels)
	}
}

func wanSampler(t *testing.T, c WanConfig, steps int) Sampler {
	t.Helper()
	r, err := Wan(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.New(steps, VideoSize{Height: 480, Width: 832, Frames: 81})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWanRefuses: unsupported options, numbers of steps and given frames are refused.
func TestWanRefuses(t *testing.T) {
	for _, c := range []struct {
		config WanConfig
		want   string
	}{
		{WanConfig{Solver: "dpm"}, "flow_solver is \"dpm\": give unipc, euler or dmd"},
		{WanConfig{Sigmas: "karras"}, "flow_sigmas is \"karras\": give diffusers, wan or distilled"},
		{WanConfig{Solver: "euler", Sigmas: "wan"}, "flow_sigmas is wan: only unipc"},
		{WanConfig{Solver: "dmd", Sigmas: "wan"}, "flow_sigmas is wan: dmd has a table of its own"},
		{WanConfig{Sigmas: "distilled"}, "flow_sigmas is distilled: only euler has that table"},
		{WanConfig{Shift: -1}, "flow_shift is -1"}, {WanConfig{Shift: math.NaN()}, "flow_shift is NaN"},
	} {
		if _, err := Wan(c.config); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	r, err := Wan(WanConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for steps, want := range map[int]string{0: "num_inference_steps is 0: give 1 to 1000", 1001: "num_inference_steps is 1001", 1: ""} {
		if err := r.Check(steps, VideoSize{Frames: 2}); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
	few, err := Wan(WanConfig{Solver: "dmd"})
	if err != nil || few.NumInferenceSteps != 3 || few.GuidanceScale != 1 {
		t.Errorf("%+v, %v", few, err)
	}
	if err := few.Check(4, VideoSize{}); err == nil || err.Error() != "num_inference_steps is 4: dmd has 3" {
		t.Errorf("4 steps of dmd: %v", err)
	}
	for _, solver := range []string{"unipc", "euler"} {
		b := Batch{N: 1, Channels: 1, Size: 4, Frames: 1, Masks: []float32{0.5}}
		err := wanSampler(t, WanConfig{Solver: solver}, 3).Sample(t.Context(), b, make([]float32, 4), double, nil, nil)
		if err == nil || err.Error() != solver+": a frame mask is 0.5: frames are given or not, 0 or 1" {
			t.Errorf("%s with a part of a frame: %v", solver, err)
		}
	}
}

// TestWanGivenFrames: given frames do not change, and the network is told which they are. With a network that processes each
// value alone, the other frames have the bits that they have without given frames.
func TestWanGivenFrames(t *testing.T) {
	for _, c := range []WanConfig{{}, {Solver: "euler"}, {Solver: "dmd"}} {
		s := wanSampler(t, c, 3)
		start := nntest.Hash("z", 1, 2, 2, 3) // 2 elements of one channel, 2 frames of 3
		noise := func(_ Draw, _ int, dst []float32) { clear(dst) }
		free := slices.Clone(start)
		if err := s.Sample(t.Context(), Batch{N: 2, Channels: 1, Size: 6}, free, halve, noise, nil); err != nil {
			t.Fatal(err)
		}
		told := 0
		look := func(ctx context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
			if slices.Equal(generated, []bool{false, true, true, true}) && slices.Equal(rows[:3], start[:3]) {
				told++
			}
			return halve(ctx, rows, timesteps, generated)
		}
		z := slices.Clone(start)
		b := Batch{N: 2, Channels: 1, Size: 6, Frames: 2, Masks: []float32{0, 1, 1, 1}}
		if err := s.Sample(t.Context(), b, z, look, noise, nil); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(z[:3], start[:3]) || !slices.Equal(z[3:], free[3:]) || told != s.Steps() {
			t.Errorf("%+v: %v from %v, without given frames %v, told %d times", c, z, start, free, told)
		}
	}
}

// TestWanSteps: values stay finite with the largest number of steps; a stop or a value that is not finite ends the run at its
// step; a sampler can be used for two runs; shares of an element have the bits of the whole.
func TestWanSteps(t *testing.T) {
	for _, solver := range []string{"unipc", "euler"} {
		for _, c := range []WanConfig{{Solver: solver, Shift: 12}, {Solver: "unipc", Sigmas: "wan", Shift: 0.25}} {
			s := wanSampler(t, c, MaxSteps)
			b := Batch{N: 1, Channels: 2, Size: 3}
			whole := nntest.Hash("z", 1, 2, 3)
			if err := s.Sample(t.Context(), b, whole, halve, nil, nil); err != nil {
				t.Fatal(err)
			}
			z := nntest.Hash("z", 1, 2, 3)
			first := []float32{z[0], z[3]}
			rest := []float32{z[1], z[2], z[4], z[5]}
			for i, share := range [][]float32{first, rest} {
				b := Batch{N: 1, Channels: 2, Sizes: []int{1 + i}}
				if err := s.Sample(t.Context(), b, share, halve, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			if got := []float32{first[0], rest[0], rest[1], first[1], rest[2], rest[3]}; !slices.Equal(got, whole) {
				t.Errorf("shares give %v, the whole %v", got, whole)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := func(done, _ int) {
			if done == 2 {
				cancel()
			}
		}
		s, b := wanSampler(t, WanConfig{Solver: solver}, 5), Batch{N: 1, Channels: 1, Size: 3}
		err := s.Sample(ctx, b, make([]float32, 3), halve, nil, done)
		if err == nil || err.Error() != solver+": stopped before step 3 of 5: context canceled" {
			t.Errorf("%s: %v", solver, err)
		}
		bad := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) {
			return slices.Repeat([]float32{float32(math.Inf(1))}, len(rows)), nil
		}
		err = s.Sample(t.Context(), b, make([]float32, 3), bad, nil, nil)
		if err == nil || !strings.HasPrefix(err.Error(), solver+": step 1 of 5: the latents hold numbers that are not finite") {
			t.Errorf("%s: %v", solver, err)
		}
	}
}

// halve answers with half the input.
func halve(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) {
	out := make([]float32, len(rows))
	for i, x := range rows {
		out[i] = x / 2
	}
	return out, nil
}
