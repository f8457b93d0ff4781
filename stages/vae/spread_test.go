package vae

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weight"
)

// stageOf is the stage decode_vae with hashed weights.
func stageOf(t *testing.T, cfg Config) *decodeStage {
	t.Helper()
	m := nntest.Model(t, "vae", nntest.Shapes(t, cfg, Load))
	c, err := weight.OpenComponent(m, "vae", func([]byte) (Config, error) { return cfg, nil }, Load)
	if err != nil {
		t.Fatal(err)
	}
	return &decodeStage{c, 3}
}

// TestSameFramesOnAnySet: frames are the same however many devices decode them.
func TestSameFramesOnAnySet(t *testing.T) {
	cases := goldenCases(t)
	for _, k := range []struct {
		name         string
		frames, loop int
	}{{"vae_kl_fp32", 7, 0}, {"vae_v1_2_23frames_fp32", 40, 0}, {"vae_v1_2_23frames_fp32", 34, 3},
		{"vae_v1_3_33frames_overlap_fp32", 1, 0}, {"vae_v1_3_33frames_overlap_fp32", 49, 0}, {"vae_v1_3_33frames_overlap_fp32", 33, 2}} {
		name, frames := k.name, k.frames
		c := cases[name]
		cfg := c.config(t)
		s := stageOf(t, cfg)
		height, width := 2*cfg.Downscale(), 3*cfg.Downscale()
		shape, err := cfg.LatentShape(frames, height, width)
		if err != nil {
			t.Fatal(err)
		}
		shape[1] *= max(1, k.loop)
		elements := func() []*stages.Element {
			var out []*stages.Element
			for i := range 2 {
				z := &stages.Array{Shape: shape, Data: nntest.Hash(fmt.Sprint("z", i), 1.7, shape...)}
				out = append(out, &stages.Element{Latents: z, Row: schemas.PromptRow{NumFrames: frames, Height: height,
					Width: width, FPS: 8, Loop: k.loop, ConditionFrameLength: 5}})
			}
			return out
		}
		want := elements()
		if err := s.Run(t.Context(), cpu.New(1), want); err != nil {
			t.Fatal(err)
		}
		for _, speeds := range [][]float64{sequence.Equal(2), sequence.Equal(3), {1, 0.2, 3}, sequence.Equal(9)} {
			set := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
				return transport.Shared(len(speeds)), nil
			}}
			for range speeds {
				set.Devices = append(set.Devices, cpu.New(1))
			}
			got := elements()
			if err := s.RunSet(t.Context(), set, got); err != nil {
				t.Fatalf("%s, %d frames, over %v: %v", name, frames, speeds, err)
			}
			for i, e := range got {
				if e.Frames == nil || !slices.EqualFunc(e.Frames.Frames, want[i].Frames.Frames, slices.Equal) ||
					e.Frames.Width != width || e.Frames.Height != height {
					t.Errorf("%s, %d frames, over %v: element %d has other frames", name, frames, speeds, i)
				}
			}
		}
	}
}
