package sampler

import (
	"context"
	"math"
	"strings"
	"testing"
)

// TestNotFinite: a NaN from the network ends the sampling, and the error names the step. A NaN in the unused half of the
// prediction has no effect.
func TestNotFinite(t *testing.T) {
	iddpm, err := NewIDDPM(4, 3, false)
	if err != nil {
		t.Fatal(err)
	}
	rflow, err := OpenSora("1.2")
	if err != nil {
		t.Fatal(err)
	}
	flow, err := rflow.New(4, VideoSize{Height: 64, Width: 64, Frames: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Sampler{"iddpm": iddpm, "rflow": flow} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			calls := 0
			model := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) {
				out := make([]float32, 2*len(rows))
				if calls++; calls == 3 {
					out[5] = float32(bad)
				}
				if name == "rflow" {
					out[len(rows)+1] = float32(bad) // the variance, that it has no use for
				}
				return out, nil
			}
			b := Batch{N: 1, Channels: 4, Size: 6, Frames: 1}
			noise := func(_ Draw, _ int, dst []float32) { clear(dst) }
			err := s.Sample(t.Context(), b, make([]float32, 24), model, noise, nil)
			if err == nil || calls != 3 || !strings.Contains(err.Error(),
				name+": step 3 of 4: the latents hold numbers that are not finite") {
				t.Errorf("%s: %g in the third call of %d: %v", name, bad, calls, err)
			}
		}
	}
}
