package stdit

import (
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// conditioned gives every second element of a batch a reference of some latent frames.
func conditioned(cfg Config, batch []*stages.Element, frames int, strategy string) []*stages.Element {
	size := cfg.latentSize(&batch[0].Row)
	for i, e := range batch {
		if i%2 == 0 {
			shape := []int{cfg.InChannels, frames, size.H, size.W}
			e.Row.Reference, e.Row.MaskStrategy = "a.png", strategy
			e.References = []*stages.Array{{Shape: shape, Data: nntest.Hash("reference", 1, shape...)}}
		}
	}
	return batch
}

// frame returns latent frame t of an element, channel by channel.
func frame(a *stages.Array, t int) []float32 {
	area := a.Shape[2] * a.Shape[3]
	var out []float32
	for c := range a.Shape[0] {
		out = append(out, a.Data[(c*a.Shape[1]+t)*area:][:area]...)
	}
	return out
}

// TestGivenFrames: frames that are given with edit 0 do not change (except in IDDPM, whose last step changes them), the other
// frames depend on them, and elements without given frames do not change.
func TestGivenFrames(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		if cfg.Version == OpenSora10 {
			continue
		}
		s := testStage(t, cfg)
		frames := map[Version]int{OpenSora11: 10, OpenSora12: 34, OpenSora13: 33}[cfg.Version] // 10 of the latents
		free := batchOf(cfg, 2, frames, 32, 48, 2, 4)
		given := conditioned(cfg, batchOf(cfg, 2, frames, 32, 48, 2, 4), 5, "0,0,0,0,2,0;0,0,0,5,2,0.6")
		for _, batch := range [][]*stages.Element{free, given} {
			if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
				t.Fatal(err)
			}
		}
		digest(t, given) // it checks that no element failed
		if !slices.Equal(free[1].Latents.Data, given[1].Latents.Data) {
			t.Errorf("%s: an element changes with its neighbour's condition", cfg.name())
		}
		for at := range 10 {
			kept := slices.Equal(frame(given[0].Latents, at), frame(given[0].References[0], min(at, 4)))
			if kept != (at < 2 && cfg.Version != OpenSora11) {
				t.Errorf("%s: frame %d is the reference's: %v", cfg.name(), at, kept)
			}
			if slices.Equal(frame(given[0].Latents, at), frame(free[0].Latents, at)) {
				t.Errorf("%s: frame %d does not follow the given ones", cfg.name(), at)
			}
		}
	}
}

// TestGivenFramesOnAnySet: the same bytes on any number of ranks.
func TestGivenFramesOnAnySet(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		if cfg.Version == OpenSora10 || cfg.Version == OpenSora13 {
			continue
		}
		s := testStage(t, cfg)
		frames := map[Version]int{OpenSora11: 5, OpenSora12: 17}[cfg.Version]
		batch := func() []*stages.Element {
			return conditioned(cfg, batchOf(cfg, 3, frames, 32, 48, 3, 4), 5, "0,0,0,0,1,0;0,0,0,4,1,0.5")
		}
		one := batch()
		if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
			t.Fatal(err)
		}
		want := digest(t, one)
		for n := 2; n <= 7; n++ {
			many := batch()
			set := setOf(sequence.Equal(n), func() kernels.Backend { return cpu.New(1) })
			if err := s.RunSet(t.Context(), set, many); err != nil {
				t.Fatal(err)
			}
			if digest(t, many) != want {
				t.Errorf("%s: other bytes on %d ranks", cfg.name(), n)
			}
		}
		for _, g := range []cost.Grid{gridOf(1, 1, 2), gridOf(2, 2, 1), gridOf(2, 2, 2)} {
			s.onGrid(g)
			many := batch()
			set := setOf(sequence.Equal(g.Ranks()), func() kernels.Backend { return cpu.New(1) })
			if err := s.RunSet(t.Context(), set, many); err != nil {
				t.Fatal(err)
			}
			if digest(t, many) != want {
				t.Errorf("%s: other bytes on a grid of %v", cfg.name(), g)
			}
		}
	}
}

// TestConditionFaults: a condition that is not supported fails its row before it is computed, or only its own row in a batch.
func TestConditionFaults(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		s := testStage(t, cfg)
		for want, row := range map[string]schemas.PromptRow{
			"mask_strategy: group": {Reference: "a", MaskStrategy: "x"},
			"mask_strategy is mis": {Reference: "a"},
			"Open-Sora 1.0 takes":  {Reference: "a", MaskStrategy: "0"},
		} {
			if cfg.Version == OpenSora10 && want == "mask_strategy is mis" {
				continue
			}
			if cfg.Version != OpenSora10 && want == "Open-Sora 1.0 takes" {
				want = ""
			}
			full := batchOf(cfg, 1, map[Version]int{OpenSora11: 10, OpenSora12: 34, OpenSora13: 33}[cfg.Version], 32, 48, 2, 4)[0].Row
			if cfg.Version == OpenSora10 {
				full.NumFrames = 2
			}
			full.Reference, full.MaskStrategy = row.Reference, row.MaskStrategy
			nntest.WantError(t, cfg.name(), s.Check(&full), want)
		}
		if cfg.Version != OpenSora11 {
			continue
		}
		batch := conditioned(cfg, batchOf(cfg, 4, 5, 32, 48, 2, 4), 5, "0,0,9")
		batch[2].References = nil
		if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
			t.Fatal(err)
		}
		nntest.WantError(t, "a frame too many", failure(batch[0]), "begins at latent frame 9 of the reference")
		nntest.WantError(t, "nothing encoded", failure(batch[2]), "put `- encode_reference: {}` before denoise")
		digest(t, []*stages.Element{batch[1], batch[3]})
	}
}

func failure(e *stages.Element) error {
	if e.Failed == nil {
		return nil
	}
	return e.Failed
}
