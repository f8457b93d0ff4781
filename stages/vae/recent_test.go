package vae

import (
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestCaptionsCostOneEncoding: rows that differ only in their text are encoded once, also in several batches; another window,
// size, file or sample is encoded separately.
func TestCaptionsCostOneEncoding(t *testing.T) {
	seeds := []int64{1, 2}
	base := schemas.PromptRow{Media: "../../testdata/media/square.y4m", Height: 16, Width: 16, NumFrames: 2, FPS: 8, Seed: &seeds[0]}
	row := func(change func(*schemas.PromptRow)) *stages.Element {
		e := &stages.Element{Row: base}
		change(&e.Row)
		return e
	}
	caption := func(text string) *stages.Element { return row(func(r *schemas.PromptRow) { r.Prompt = text }) }
	cut := schemas.Cut{Filter: "bicubic", ScaledWidth: 16, ScaledHeight: 16, Start: 3, Count: 2}
	for _, c := range []struct {
		posterior string
		batches   [][]*stages.Element
		want      int64 // encodings
	}{
		{"mean", [][]*stages.Element{{caption("a"), caption("b"), caption("")}, {caption("c")}}, 1},
		{"mean", [][]*stages.Element{{caption("a"), row(func(r *schemas.PromptRow) { r.Cut = &cut })}}, 2},
		{"mean", [][]*stages.Element{{caption("a"), row(func(r *schemas.PromptRow) { r.Width = 24 })}}, 2},
		{"mean", [][]*stages.Element{{caption("a"), row(func(r *schemas.PromptRow) { r.Media = "../../testdata/media/disc" })}}, 2},
		{"mean", [][]*stages.Element{{caption("a"), row(func(r *schemas.PromptRow) { r.Seed = &seeds[1] })}}, 1},
		{"sample", [][]*stages.Element{{caption("a"), row(func(r *schemas.PromptRow) { r.Seed = &seeds[1] })}}, 2},
	} {
		s, err := Encode().New(modelOf(t, "vae_kl_fp32"), func(options any) error {
			options.(*encodeOptions).Posterior = c.posterior
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		uploads := func(batch []*stages.Element) int64 {
			be := kernels.NewMetered(cpu.New(1))
			if err := s.Run(t.Context(), be, batch); err != nil {
				t.Fatal(err)
			}
			for _, e := range batch {
				if e.Failed != nil || e.Latents == nil {
					t.Fatalf("%+v", e.Failed)
				}
			}
			return be.Usage()[kernels.OpConv].Calls
		}
		got := int64(0)
		for _, batch := range c.batches {
			got += uploads(batch)
		}
		one, err := Encode().New(modelOf(t, "vae_kl_fp32"), nil)
		if err != nil {
			t.Fatal(err)
		}
		s = one
		if single := uploads([]*stages.Element{caption("a")}); got != c.want*single {
			t.Errorf("%s: %d convolutions, one encoding has %d, want %d encodings", c.posterior, got, single, c.want)
		}
		first := c.batches[0][0].Latents
		for _, e := range c.batches[0][1:] {
			if &e.Latents.Data[0] == &first.Data[0] {
				t.Error("two rows share their latents")
			}
			if c.want == 1 && !slices.Equal(e.Latents.Data, first.Data) {
				t.Error("one clip has two latents")
			}
		}
	}
}
