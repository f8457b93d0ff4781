package sampler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/nn/nntest"
)

// saved is the state of a sampling after a step.
type saved struct {
	State
	z []float32
}

// TestResume: every sampler that resumes from the state after any step gives the bytes of an uninterrupted run.
func TestResume(t *testing.T) {
	for name, run := range allRuns(t) {
		t.Run(name, func(t *testing.T) {
			want, states := run.from(t, saved{})
			if len(states) != run.sampler.Steps()-1 {
				t.Fatalf("%d states of %d steps", len(states), run.sampler.Steps())
			}
			for _, s := range states {
				if got, _ := run.from(t, s); !slices.Equal(got, want) {
					t.Errorf("other values when resumed after step %d", s.Done)
				}
				if s.Done == run.sampler.Steps()-1 { // the last step corrects a value that is not used any more
					continue
				}
				for i := range s.Memory { // it counts
					changed := s
					changed.Memory = slices.Clone(s.Memory)
					changed.Memory[i].Values = slices.Clone(s.Memory[i].Values)
					changed.Memory[i].Values[0]++
					if got, _ := run.from(t, changed); slices.Equal(got, want) {
						t.Errorf("the memory %q behind step %d changes nothing", s.Memory[i].Name, s.Done)
					}
				}
			}
		})
	}
}

// toyRun is a sampler over the toy network.
type toyRun struct {
	sampler Sampler
	batch   Batch
	noise   Noise
	shape   []int
}

// from samples starting at a state, or from the beginning if the state is zero.
func (r toyRun) from(t *testing.T, s saved) (z []float32, states []saved) {
	t.Helper()
	b := r.batch
	b.From = s.State
	b.After = func(s State) error {
		one := saved{State{Done: s.Done}, slices.Clone(z)}
		for _, m := range s.Memory {
			one.Memory = append(one.Memory, History{m.Name, slices.Clone(m.Values)})
		}
		states = append(states, one)
		return nil
	}
	if z = slices.Clone(s.z); z == nil {
		z = nntest.Hash("noise.init", 1.7, r.shape...)
	}
	if err := r.sampler.Sample(t.Context(), b, z, (&toyNetwork{batch: b}).evaluate, r.noise, nil); err != nil {
		t.Fatal(err)
	}
	return z, states
}

// allRuns are the runs of all golden files.
func allRuns(t *testing.T) map[string]toyRun {
	all := map[string]toyRun{}
	cases := nntest.Golden(t, "../../../testdata/golden/sampler.json")
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		var c goldenRun
		nntest.Decode(t, cases[name], &c)
		b, noise := c.batch(name)
		all[name] = toyRun{c.sampler(t), b, noise, c.Shape}
	}
	cases = nntest.Golden(t, "../../../testdata/golden/wan-sampler.json")
	maps.Copy(cases, nntest.Golden(t, "../../../testdata/golden/wan-distilled.json"))
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		var c wanRun
		nntest.Decode(t, cases[name], &c)
		s := wanSampler(t, WanConfig{Solver: c.Solver, Sigmas: c.Sigmas, Shift: c.Shift}, c.Steps)
		all["wan "+name] = toyRun{s, c.batch(), c.fresh, c.Shape}
	}
	for name, c := range vpRuns(t) {
		if name == "pndm_least" { // its only step after the Runge-Kutta steps is at timestep 0 and changes nothing
			continue
		}
		all["vp "+name] = toyRun{c.sampler(t), c.batch(), c.noise, c.Shape}
	}
	return all
}

// TestResumeIsChecked: a state of another number of steps, or of another sampler, is refused, and an error of After ends the
// sampling.
func TestResumeIsChecked(t *testing.T) {
	s := wanSampler(t, WanConfig{}, 4)
	z := make([]float32, 8)
	b := Batch{N: 1, Channels: 2, Size: 4, Frames: 1}
	memory := func(names ...string) (out []History) {
		for _, name := range names {
			out = append(out, History{name, z})
		}
		return out
	}
	for want, from := range map[string]State{
		"resume after step 4 of 4":                           {Done: 4},
		"resume after step -1":                               {Done: -1},
		"with 0 remembered tensors, want [data last]":        {Done: 1},
		"with 2 remembered tensors, want [data last before]": {Done: 2, Memory: memory("data", "last")},
		`resume with 8 values of "last", want 8`:             {Done: 1, Memory: memory("last", "data")},
		`resume with 1 values of "last", want 8 of "`:        {Done: 1, Memory: []History{{"data", z}, {"last", z[:1]}}},
	} {
		b.From = from
		nntest.WantError(t, fmt.Sprint(from.Done), s.Sample(t.Context(), b, z, nil, nil, nil), want)
	}
	full := errors.New("no room")
	b.From, b.After = State{}, func(State) error { return full }
	if err := s.Sample(t.Context(), b, z, (&toyNetwork{batch: b}).evaluate, nil, nil); !errors.Is(err, full) {
		t.Errorf("after an error: %v", err)
	}
}

// TestSignatures: samplers have one signature if and only if they take the same steps.
func TestSignatures(t *testing.T) {
	seen := map[string]string{}
	for _, steps := range []int{4, 5} {
		for _, version := range []string{"1.0", "1.1", "1.2", "1.3"} {
			r, err := OpenSora(version)
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.New(steps, VideoSize{Height: 64, Width: 64, Frames: 17})
			if err != nil {
				t.Fatal(err)
			}
			note(t, seen, fmt.Sprint(version, steps), s.Signature())
		}
		for _, c := range []WanConfig{{}, {Solver: "euler"}, {Sigmas: "wan"}, {Shift: 5},
			{Solver: "euler", Sigmas: "distilled"}} {
			note(t, seen, fmt.Sprint(c, steps), wanSampler(t, c, steps).Signature())
		}
		for _, c := range []VPConfig{{}, {Prediction: "v_prediction"}, {Spacing: "trailing"}, {Spacing: "leading"}, {ZeroSNR: true},
			{Solver: "pndm"}, {Solver: "pndm", Prediction: "v_prediction"}, {Solver: "pndm", Spacing: "trailing"}} {
			r, err := VP(c)
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.New(steps, VideoSize{})
			if err != nil {
				t.Fatal(err)
			}
			note(t, seen, fmt.Sprint(c, steps), s.Signature())
		}
	}
	if again := wanSampler(t, WanConfig{}, 4).Signature(); !strings.HasPrefix(again, "unipc/") || seen[again] == "" {
		t.Errorf("another signature: %s", again)
	}
}

func note(t *testing.T, seen map[string]string, name, signature string) {
	if other := seen[signature]; other != "" {
		t.Errorf("%s and %s are both %s", name, other, signature)
	}
	seen[signature] = name
}
