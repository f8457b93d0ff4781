package main

import (
	"context"
	"math"
	"slices"
	"testing"

	"latentbeam/stages/diffuse/sampler"
)

// TestSecondOrder: for dz/dsigma = z, whose solution is e^sigma, ten steps of Heun have at most a fifth of the error of ten steps of Euler.
// A run that continues from the state after any evaluation ends with the same bits.
func TestSecondOrder(t *testing.T) {
	model := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) { return rows, nil }
	sample := func(s sampler.Sampler, b sampler.Batch, z []float32) []float32 {
		t.Helper()
		b.N, b.Channels, b.Size = 1, 1, len(z)
		if err := s.Sample(t.Context(), b, z, model, nil, nil); err != nil {
			t.Fatal(err)
		}
		return z
	}
	recipe, err := sampler.Wan(sampler.WanConfig{Solver: "euler", Shift: 1})
	if err != nil {
		t.Fatal(err)
	}
	euler, err := recipe.New(10, sampler.VideoSize{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHeun(10, 1)
	// sigma falls from 1 to 0, so z falls from 1 to 1/e.
	errorOf := func(z []float32) float64 { return math.Abs(float64(z[0]) - math.Exp(-1)) }
	heunError, eulerError := errorOf(sample(h, sampler.Batch{}, []float32{1, 2})), errorOf(sample(euler, sampler.Batch{}, []float32{1, 2}))
	if heunError > eulerError/5 {
		t.Errorf("the error of heun is %g, want at most a fifth of euler's %g", heunError, eulerError)
	}
	live := []float32{1, 2} // the sampler updates them in place
	var states []sampler.State
	var latents [][]float32 // after each state
	whole := sample(h, sampler.Batch{After: func(s sampler.State) error {
		s.Memory = slices.Clone(s.Memory)
		for i := range s.Memory {
			s.Memory[i].Values = slices.Clone(s.Memory[i].Values)
		}
		states, latents = append(states, s), append(latents, slices.Clone(live))
		return nil
	}}, live)
	for i, s := range states {
		if got := sample(h, sampler.Batch{From: s}, latents[i]); !slices.Equal(got, whole) {
			t.Errorf("a run from evaluation %d ends with %v, want %v", s.Done, got, whole)
		}
	}
	if len(states) != h.Steps()-1 {
		t.Errorf("got %d states of %d evaluations, want one after each but the last", len(states), h.Steps())
	}
}
