package sampler

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestNoiseDuringEvaluation: the noise of a step is drawn while the network evaluates.
func TestNoiseDuringEvaluation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const steps = 3
		begun := make(chan struct{}, steps)
		var waited atomic.Bool
		noise := func(_ Draw, _ int, dst []float32) {
			clear(dst)
			begun <- struct{}{}
		}
		calls := 0
		model := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) {
			if calls++; calls < steps { // the last step takes no noise
				select {
				case <-begun:
				case <-time.After(time.Minute): // on the clock of synctest: the noise is not drawn
					waited.Store(true)
				}
			}
			return make([]float32, 2*len(rows)), nil
		}
		b := Batch{N: 1, Channels: 4, Size: 3}
		if err := sampler(t, steps).Sample(t.Context(), b, make([]float32, 12), model, noise, nil); err != nil {
			t.Fatal(err)
		}
		if waited.Load() {
			t.Error("the noise of a step was not drawn before the network had answered")
		}
	})
}

// TestNoisePanics: a panic in drawing noise becomes a panic in the sampler's caller, who can recover it.
func TestNoisePanics(t *testing.T) {
	defer func() {
		if v := recover(); v != "no noise" {
			t.Errorf("recovered %v", v)
		}
	}()
	noise := func(Draw, int, []float32) { panic("no noise") }
	var z zeros
	err := sampler(t, 3).Sample(t.Context(), Batch{N: 1, Channels: 4, Size: 3}, make([]float32, 12), z.model, noise, nil)
	t.Errorf("no panic but %v", err)
}

// TestSpans: every value is drawn exactly once, for any number of values.
func TestSpans(t *testing.T) {
	for _, n := range []int{0, 1, spanLeast - 1, 2 * spanLeast, 5*spanLeast + 7} {
		seen := make([]int, n)
		spans(n, func(from, to int) {
			for i := from; i < to; i++ {
				seen[i]++
			}
		})
		if n > 0 && (slices.Min(seen) != 1 || slices.Max(seen) != 1) {
			t.Errorf("%d values: between %d and %d turns", n, slices.Min(seen), slices.Max(seen))
		}
	}
}
