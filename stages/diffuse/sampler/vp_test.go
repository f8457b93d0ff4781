package sampler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// vpRun is one run of a scheduler of diffusers over the toy network of testdata/golden/sampler.json.
type vpRun struct {
	Solver string
	Config struct {
		Prediction string `json:"prediction_type"`
		Spacing    string `json:"timestep_spacing"`
		ZeroSNR    bool   `json:"rescale_betas_zero_snr"`
	}
	Shape     []int // (n, C, T, H, W)
	Steps     int
	Guidance  *float32
	Timesteps []float32
	First     float64
	Levels    []float32
	Out       []float32
}

func vpRuns(t *testing.T) map[string]vpRun {
	t.Helper()
	out := map[string]vpRun{}
	for name, data := range nntest.Golden(t, "../../../testdata/golden/osplan-sampler.json") {
		var c vpRun
		nntest.Decode(t, data, &c)
		out[name] = c
	}
	return out
}

func (c *vpRun) sampler(t *testing.T) Sampler {
	t.Helper()
	r, err := VP(VPConfig{Solver: c.Solver, Prediction: c.Config.Prediction, Spacing: c.Config.Spacing, ZeroSNR: c.Config.ZeroSNR})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.New(c.Steps, VideoSize{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *vpRun) batch() Batch {
	n, frames := c.Shape[0], c.Shape[2]
	b := Batch{N: n, Channels: c.Shape[1], Frames: frames, Size: frames * c.Shape[3] * c.Shape[4]}
	if c.Guidance != nil {
		b.Guidance = slices.Repeat([]float32{*c.Guidance}, n)
	}
	return b
}

func (c *vpRun) noise(d Draw, element int, dst []float32) {
	copy(dst, nntest.Hash(fmt.Sprint("noise.", d.Step), 1.7, c.Shape[0]*len(dst))[element*len(dst):])
}

// TestVPGolden runs the samplers against diffusers' own; the noise of every step is given.
func TestVPGolden(t *testing.T) {
	cases := vpRuns(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			s, b := c.sampler(t), c.batch()
			toy, z := &toyNetwork{batch: b}, nntest.Hash("noise.init", 1.7, c.Shape...)
			if err := s.Sample(t.Context(), b, z, toy.evaluate, c.noise, nil); err != nil {
				t.Fatal(err)
			}
			diff, largest := nntest.MaxDiff(z, c.Out)
			t.Logf("largest difference %.2g of %.3g", diff, largest)
			if !(diff <= 1e-5*largest) {
				t.Errorf("differs by %g from the reference", diff)
			}
			if at, _ := nntest.MaxDiff(toy.timesteps, c.Timesteps); !(at <= 1e-4) || len(toy.timesteps) != s.Steps() {
				t.Errorf("timesteps %v, want %v", toy.timesteps, c.Timesteps)
			}
			if a, ok := s.(*EulerAncestral); ok {
				for i, want := range c.Levels {
					if d := a.sigmas[i] - want; !(max(d, -d) <= 1e-5*want) {
						t.Errorf("level %d is %g, want %g", i, a.sigmas[i], want)
					}
				}
				if first := float64(a.first) / c.First; !(first > 1-1e-5 && first < 1+1e-5) {
					t.Errorf("the initial noise is multiplied by %g, want %g", a.first, c.First)
				}
			}
		})
	}
}

// TestVPRefuses: unsupported options, numbers of steps and given frames are refused.
func TestVPRefuses(t *testing.T) {
	for _, c := range []struct {
		config VPConfig
		want   string
	}{
		{VPConfig{Solver: "ddim"}, `sample_method is "ddim": give euler_ancestral or pndm`},
		{VPConfig{Prediction: "sample"}, `prediction_type is "sample": give epsilon or v_prediction`},
		{VPConfig{Spacing: "karras"}, `timestep_spacing is "karras": give linspace, leading or trailing`},
		{VPConfig{Solver: "pndm", ZeroSNR: true}, "rescale_betas_zero_snr is true: pndm cannot do it"},
	} {
		if _, err := VP(c.config); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	for solver, least := range map[string]int{"euler_ancestral": 1, "pndm": 4} {
		r, err := VP(VPConfig{Solver: solver})
		if err != nil {
			t.Fatal(err)
		}
		for steps, good := range map[int]bool{least - 1: false, least: true, MaxSteps: true, MaxSteps + 1: false} {
			if err := r.Check(steps, VideoSize{}); (err == nil) != good || err != nil &&
				!strings.HasPrefix(err.Error(), "num_inference_steps is") {
				t.Errorf("%s, %d steps: %v", solver, steps, err)
			}
		}
		s, err := r.New(5, VideoSize{})
		if err != nil {
			t.Fatal(err)
		}
		b := Batch{N: 1, Channels: 1, Size: 4, Frames: 1, Masks: []float32{0}}
		err = s.Sample(t.Context(), b, make([]float32, 4), double, nil, nil)
		if err == nil || err.Error() != solver+": frames cannot be given" {
			t.Errorf("%s with given frames: %v", solver, err)
		}
	}
}

// TestVPMostSteps: values stay finite with the largest number of steps, for all schedules.
func TestVPMostSteps(t *testing.T) {
	for _, c := range []VPConfig{{}, {Spacing: "leading"}, {Solver: "pndm"},
		{Prediction: "v_prediction", Spacing: "trailing", ZeroSNR: true}, {ZeroSNR: true}} {
		r, err := VP(c)
		if err != nil {
			t.Fatal(err)
		}
		most := MaxSteps
		if c.ZeroSNR {
			most = 250
			want := "num_inference_steps is 300: with rescale_betas_zero_snr the second step would have more noise"
			if err := r.Check(most+50, VideoSize{}); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%+v, 300 steps: %v", c, err)
			}
		}
		s, err := r.New(most, VideoSize{})
		if err != nil {
			t.Fatal(err)
		}
		z := nntest.Hash("z", 1, 2, 3)
		noise := func(d Draw, _ int, dst []float32) { copy(dst, nntest.Hash(fmt.Sprint(d.Step), 1.7, len(dst))) }
		if err := s.Sample(t.Context(), Batch{N: 1, Channels: 2, Size: 3}, z, halve, noise, nil); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
