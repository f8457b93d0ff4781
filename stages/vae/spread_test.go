package vae

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// setOf is a set of devices of this process with the given speeds.
func setOf(speeds []float64) *stages.Set {
	set := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
		return cluster.Shared(len(speeds)), nil
	}}
	for range speeds {
		set.Devices = append(set.Devices, cpu.New(1))
	}
	return set
}

// TestSameFramesOnAnySet: frames are the same for any number of devices that decode them, alone and in a batch.
func TestSameFramesOnAnySet(t *testing.T) {
	for nth, k := range []struct {
		name, dt     string
		frames, loop int
		h, w         int // of the latents
	}{{"vae_kl_fp32", "fp32", 7, 0, 2, 3}, {"vae_v1_2_23frames_fp32", "fp32", 40, 0, 2, 3}, {"vae_v1_2_23frames_fp32", "fp32", 34, 3, 2, 3},
		{"vae_v1_3_33frames_overlap_fp32", "fp32", 1, 0, 2, 3}, {"vae_v1_3_33frames_overlap_fp32", "fp32", 49, 0, 2, 3},
		{"vae_v1_3_33frames_overlap_fp32", "fp32", 33, 2, 2, 3}, {"causal_fixed_29frames", "fp32", 1, 0, 4, 2},
		{"causal_defaults_9frames", "fp32", 61, 0, 4, 2}, {"causal_defaults_9frames", "bf16", 33, 0, 4, 2},
		{"wf_9frames", "fp32", 1, 0, 4, 2}, {"wf_29frames", "fp32", 13, 0, 4, 2}, {"wf_29frames", "bf16", 13, 0, 4, 2},
		{"wf_other_13frames", "fp32", 5, 0, 4, 2}, {"wan21_1frame", "fp32", 1, 0, 5, 3}, {"wan21_9frames_odd", "fp32", 9, 0, 5, 3},
		{"wan21_9frames_odd", "bf16", 5, 0, 5, 3}, {"wan22_9frames", "fp32", 9, 0, 5, 3}, {"wan22_9frames", "bf16", 5, 0, 5, 3}} {
		name := fmt.Sprintf("%s in %s, %d frames, loop %d", k.name, k.dt, k.frames, k.loop)
		s := &decodeStage{component: componentOf(t, k.name, k.dt), micro: 3}
		d := s.Config.Downscale()
		row := schemas.PromptRow{NumFrames: k.frames, Height: k.h * d, Width: k.w * d, FPS: 8, Loop: k.loop, ConditionFrameLength: 5}
		shape, err := s.Config.ShapeOf(&row)
		if err != nil {
			t.Fatal(err)
		}
		if s.Config.Banded && s.Width(&row) != 0 {
			t.Errorf("%s: a set has %d devices", name, s.Width(&row))
		}
		shape[1] *= max(1, k.loop)
		elements := func() (out []*stages.Element) {
			for i := range 2 {
				z := &stages.Array{Shape: shape, Data: nntest.Hash(fmt.Sprint("z", i), 1.7, shape...)}
				out = append(out, &stages.Element{Latents: z, Row: row})
			}
			return out
		}
		want, alone := elements(), elements()[1:]
		if err := s.Run(t.Context(), cpu.New(1), want); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context(), cpu.New(1), alone); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(alone[0].Frames.Frames, want[1].Frames.Frames, slices.Equal) {
			t.Errorf("%s: other frames alone than in a batch", name)
		}
		for i, speeds := range [][]float64{sequence.Equal(1), sequence.Equal(2), sequence.Equal(3), {1, 0.02, 3}, sequence.Equal(9)} {
			if testing.Short() && (nth+i)%3 != 0 {
				continue
			}
			got := elements()
			if err := s.RunSet(t.Context(), setOf(speeds), got); err != nil {
				t.Fatalf("%s over %v: %v", name, speeds, err)
			}
			for i, e := range got {
				if e.Frames == nil || len(e.Frames.Frames) == 0 || e.Frames.Width != row.Width || e.Frames.Height != row.Height ||
					!slices.EqualFunc(e.Frames.Frames, want[i].Frames.Frames, slices.Equal) {
					t.Errorf("%s over %v: element %d has other frames", name, speeds, i)
				}
			}
		}
	}
}
