package sampler

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func sampler(t *testing.T, steps int) *IDDPM {
	t.Helper()
	s, err := NewIDDPM(steps, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRespacing checks the published choice of 100 timesteps: gaps of 10 or 11, rounded half to even.
func TestRespacing(t *testing.T) {
	at := sampler(t, 100).Timesteps()
	slices.Reverse(at)
	if len(at) != 100 || !slices.Equal(at[:8], []float32{0, 10, 20, 30, 40, 50, 61, 71}) ||
		!slices.Equal(at[98:], []float32{989, 999}) {
		t.Errorf("100 steps are %v", at)
	}
	for i := 1; i < len(at); i++ {
		if gap := at[i] - at[i-1]; gap != 10 && gap != 11 {
			t.Errorf("gap %g before %g", gap, at[i])
		}
	}
	if all := sampler(t, 1000).Timesteps(); len(all) != 1000 || all[0] != 999 || all[999] != 0 {
		t.Error("1000 steps are not all timesteps")
	}
	for _, n := range []int{-1, 0, 1, 1001} {
		if _, err := NewIDDPM(n, 0, false); err == nil || !strings.Contains(err.Error(), "num_inference_steps") {
			t.Errorf("%d steps: error %v", n, err)
		}
	}
}

// TestCoefficients compares the tables of 100 steps with those of the reference. Its tables are fp64. This shows at the first
// timestep, where the whole mean is x_0; with fp32 tables it would be 0.999834 of x_0.
func TestCoefficients(t *testing.T) {
	s := sampler(t, 100).steps
	if s[0].mean0 != 1 || s[0].meanT != 0 {
		t.Errorf("at timestep 0 the mean takes %g of x_0 and %g of x_t, want 1 and 0", s[0].mean0, s[0].meanT)
	}
	for i, want := range map[int]coefficients{
		1:  {10, 1.00109851, 0.0468854904, 0.954456985, 0.0455429964, -6.16885281, -9.25690269, 0, 0},
		50: {505, 3.67758608, 3.53901672, 0.0326741412, 0.937023342, -2.25134015, -2.26077724, 0, 0},
		99: {999, 157.410461, 157.407288, 0.00127983664, 0.904326141, -1.7027626, -1.70277166, 0, 0},
	} {
		got := []float32{s[i].timestep, s[i].recip, s[i].recipM1, s[i].mean0, s[i].meanT, s[i].logBeta, s[i].logPost}
		for j, w := range []float32{want.timestep, want.recip, want.recipM1, want.mean0, want.meanT, want.logBeta,
			want.logPost} {
			if math.Abs(float64(got[j])-float64(w)) > 1e-6*math.Abs(float64(w)) {
				t.Errorf("step %d: coefficient %d is %g, want %g", i, j, got[j], w)
			}
		}
	}
	if two := sampler(t, 2).steps; two[1].timestep != 999 || two[0].logPost != two[1].logPost {
		t.Errorf("2 steps are %+v", two)
	}
}

// TestCoefficientsInFP32 compares the tables of Open-Sora 1.1, whose every operation is rounded. PyTorch's roots and
// logarithms may differ in the last bit.
func TestCoefficientsInFP32(t *testing.T) {
	s, err := NewIDDPM(100, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]coefficients{
		0: {0, 1.00004995, 0.0100008296, 0.999834061, 0, -9.2103405, -9.25672054, 0.999949992, 0.0100008296},
		1: {10, 1.00109851, 0.0468851738, 0.954472721, 0.0455513075, -6.16885281, -9.25672054, 0.998902738,
			0.0468336567},
		50: {505, 3.67758656, 3.5390172, 0.0326741375, 0.937023282, -2.25134015, -2.26077724, 0.271917462,
			0.962320626},
		99: {999, 157.410461, 157.407288, 0.00127983652, 0.904326141, -1.7027626, -1.70277166, 0.00635281764,
			0.999979854},
	} {
		for j, got := range s.steps[i].all() {
			if w := want.all()[j]; math.Abs(float64(got)-float64(w)) > 1.3e-7*math.Abs(float64(w)) {
				t.Errorf("step %d: coefficient %d is %.9g, want %.9g", i, j, got, w)
			}
		}
	}
}

func (c coefficients) all() []float32 {
	return []float32{c.timestep, c.recip, c.recipM1, c.mean0, c.meanT, c.logBeta, c.logPost, c.sqrtBar, c.sqrtBarM1}
}

// zeros answers every call with v in all values, and counts.
type zeros struct {
	calls     int
	rows      []int
	timesteps [][]float32
}

func (z *zeros) model(_ context.Context, rows, timesteps []float32, _ []bool) ([]float32, error) {
	z.calls++
	z.rows = append(z.rows, len(rows))
	z.timesteps = append(z.timesteps, slices.Clone(timesteps))
	return make([]float32, 2*len(rows)), nil
}

func noNoise(_ Draw, _ int, dst []float32) { clear(dst) }

func TestBatchLayout(t *testing.T) {
	s := sampler(t, 4)
	var z zeros
	var noised [][2]int
	noise := func(d Draw, element int, dst []float32) {
		noised = append(noised, [2]int{d.Step, element})
		clear(dst)
	}
	var progress []int
	b := Batch{N: 2, Channels: 4, Size: 3, Guidance: []float32{7, 1}}
	tell := func(done, _ int) { progress = append(progress, done) }
	err := s.Sample(t.Context(), b, make([]float32, 24), z.model, noise, tell)
	if err != nil {
		t.Fatal(err)
	}
	if z.calls != 4 || z.rows[0] != 48 || !slices.Equal(z.timesteps[1], []float32{666, 666, 666, 666}) {
		t.Errorf("%d calls of %v values at %v", z.calls, z.rows, z.timesteps)
	}
	if want := [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}; !slices.Equal(noised, want) {
		t.Errorf("noise was drawn for %v, want %v: none after the last step", noised, want)
	}
	if !slices.Equal(progress, []int{1, 2, 3, 4}) {
		t.Errorf("progress %v", progress)
	}
	z = zeros{}
	b.Guidance = nil
	err = s.Sample(t.Context(), b, make([]float32, 24), z.model, noNoise, nil)
	if err != nil || z.rows[0] != 24 {
		t.Errorf("without guidance: %v values, %v", z.rows, err)
	}
}

// TestGuidance: the first channels are null + g (cond - null); the other channels and the variance are those of cond.
func TestGuidance(t *testing.T) {
	cond := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	guide(cond, []float32{0, 1, 5, 9, 9, 9, 9, 9}, 3, 7)
	if want := []float32{7, 8, -9, 4, 5, 6, 7, 8}; !slices.Equal(cond, want) {
		t.Errorf("guided %v, want %v", cond, want)
	}
}

// TestElementsAreIndependent: an element gives the same bits alone and in a batch, with its own guidance.
func TestElementsAreIndependent(t *testing.T) {
	s := sampler(t, 5)
	s.guided = 1
	model := func(_ context.Context, rows, timesteps []float32, _ []bool) ([]float32, error) {
		out := make([]float32, 2*len(rows))
		per := len(rows) / len(timesteps)
		for i, x := range rows {
			row, at := i/per, i%per
			v := float32(math.Sin(float64(x) + float64(timesteps[row])))
			if row >= len(timesteps)/2 {
				v = -v
			}
			out[2*per*row+at], out[2*per*row+per+at] = v, v/2
		}
		return out, nil
	}
	noise := func(offset int) Noise {
		return func(d Draw, element int, dst []float32) {
			for i := range dst {
				dst[i] = float32(math.Sin(float64(d.Step*100 + (element+offset)*10 + i)))
			}
		}
	}
	start := func(n int) []float32 { return []float32{.1, .2, .3, .4, .5, .6, .7, .8, .9}[:n] }
	both := slices.Clone(start(8))
	b := Batch{N: 2, Channels: 2, Size: 2, Guidance: []float32{7, 3}}
	if err := s.Sample(t.Context(), b, both, model, noise(0), nil); err != nil {
		t.Fatal(err)
	}
	for i, g := range b.Guidance {
		one := slices.Clone(start(8)[4*i:][:4])
		alone := Batch{N: 1, Channels: 2, Size: 2, Guidance: []float32{g}}
		if err := s.Sample(t.Context(), alone, one, model, noise(i), nil); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one, both[4*i:][:4]) {
			t.Errorf("element %d is %v alone and %v in a batch", i, one, both[4*i:][:4])
		}
	}
}

func TestSampleStops(t *testing.T) {
	s := sampler(t, 4)
	b := Batch{N: 1, Channels: 1, Size: 1, Guidance: []float32{7}}
	ctx, cancel := context.WithCancel(t.Context())
	var z zeros
	err := s.Sample(ctx, b, make([]float32, 1), z.model, noNoise, func(done, _ int) {
		if done == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || z.calls != 2 {
		t.Errorf("cancelled after step 2: %v after %d calls", err, z.calls)
	}
	broken := errors.New("device lost")
	failing := func(context.Context, []float32, []float32, []bool) ([]float32, error) { return nil, broken }
	if err := s.Sample(t.Context(), b, make([]float32, 1), failing, noNoise, nil); !errors.Is(err, broken) {
		t.Errorf("a failing model gave %v", err)
	}
	short := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) { return rows, nil }
	if err := s.Sample(t.Context(), b, make([]float32, 1), short, noNoise, nil); err == nil {
		t.Error("a model without variance was accepted")
	}
	for name, b := range map[string]Batch{
		"no element": {Channels: 1, Size: 1}, "other length": {N: 2, Channels: 1, Size: 1},
		"guidance": {N: 1, Channels: 1, Size: 1, Guidance: []float32{1, 2}},
		"sizes":    {N: 1, Channels: 1, Size: 1, Sizes: []int{1, 1}},
		"frames":   {N: 1, Channels: 1, Size: 1, Masks: []float32{1}},
		"masks":    {N: 1, Channels: 1, Size: 1, Frames: 1, Masks: []float32{1.5}},
		"an image": {N: 1, Channels: 1, Size: 1, Frames: 1, Image: &Image{}},
	} {
		if err := s.Sample(t.Context(), b, make([]float32, 1), z.model, noNoise, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
