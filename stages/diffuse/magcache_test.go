package diffuse

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
)

// splitSampler is a sampler of so many steps, of which the first split are above the boundary.
type splitSampler struct {
	sampler.Sampler
	steps, split int
}

func (s splitSampler) Steps() int { return s.steps }

func (s splitSampler) Timesteps() []float32 {
	out := make([]float32, s.steps)
	for i := range s.split {
		out[i] = 1000
	}
	return out
}

// TestMagCacheSkipsAsPublished: the same evaluations are skipped as by magcache_forward of the authors' scripts, which was
// run over stub networks, for models of one and of two denoisers.
func TestMagCacheSkipsAsPublished(t *testing.T) {
	var ratios map[string]dit.MagRatios
	var cases []struct {
		Ratios     string
		Steps, K   int
		Threshold  float64
		Retention  float64
		Split      int
		FirstWhole bool `json:"first_whole"`
		Skipped    []int
	}
	for name, into := range map[string]any{"magcache.json": &ratios, "testdata/magcache-skipped.json": &cases} {
		data, err := os.ReadFile("../wan/" + name)
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	guidance := 5.0
	for _, c := range cases {
		r := ratios[c.Ratios]
		r.FirstWhole = c.FirstWhole
		s := &stage{Description: dit.Description{Boundary: 500, Magnitudes: func(bool) *dit.MagRatios { return &r }, Options: dit.Options{
			Cache: &dit.StepCache{Name: dit.MagCache, Threshold: &c.Threshold, K: &c.K, Retention: &c.Retention}}}}
		if c.Split > 0 {
			s.experts = &experts{}
		}
		e := &stages.Element{}
		e.Row.GuidanceScale = &guidance
		p := newMagPlan(&job{stage: s, batch: []*stages.Element{e}, guided: true, sampler: splitSampler{steps: c.Steps, split: c.Split}},
			func(int) bool { return true })
		var got []int
		for step := range c.Steps {
			for branch := range 2 {
				if p.skip[step][branch] {
					got = append(got, 2*step+branch)
				}
			}
		}
		if !slices.Equal(got, c.Skipped) {
			t.Errorf("%s, %d steps, %d of the first denoiser: evaluations %v are left out, want %v", c.Ratios, c.Steps, c.Split, got, c.Skipped)
		}
	}
}
