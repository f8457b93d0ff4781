package osplan

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/fstest"

	"latentbeam/internal/config"
	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

func optionsOf(t testing.TB, text string) stages.Options {
	t.Helper()
	o, err := config.ParseOptions("denoise", text)
	if err != nil {
		t.Fatal(err)
	}
	return o.Decode
}

// stageOf is the stage `denoise` with a tiny network of this config.json.
func stageOf(t testing.TB, cfg []byte, options string) stages.Stage {
	t.Helper()
	parsed, err := ParseConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		"transformer/config.json":                         &fstest.MapFile{Data: cfg},
		"transformer/diffusion_pytorch_model.safetensors": &fstest.MapFile{Data: nntest.FileBytes(t, nntest.Shapes(t, parsed, Load))},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := diffuse.Spec([]diffuse.Family{Denoiser()}, func(*stages.Model) (stages.Reencoder, error) { return nil, nil }).
		New(m, optionsOf(t, options))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// batchOf makes elements of one size with texts and seeds of their own.
func batchOf(n, frames, height, width int, guidance float64) []*stages.Element {
	var batch []*stages.Element
	d := &denoiser{Config: Config{TextWidth: 10}}
	for i := range n {
		seed := int64(100 + i)
		e := &stages.Element{Text: &stages.Text{Embedding: textOf(d, "text", i, 1+i*7), Negative: textOf(d, "negative", i, 3+i)},
			Row: schemas.PromptRow{NumFrames: frames, Height: height, Width: width, FPS: 24, NumInferenceSteps: 2,
				GuidanceScale: &guidance}}
		e.Row.Seed, e.Row.SampleIndex = &seed, i%2
		batch = append(batch, e)
	}
	return batch
}

func digests(t testing.TB, batch []*stages.Element) (out []string) {
	t.Helper()
	for i, e := range batch {
		if e.Failed != nil || e.Latents == nil {
			t.Fatalf("element %d has no latents: %v", i, e.Failed)
		}
		h := sha256.New()
		fmt.Fprintf(h, "%v%v%g", e.Latents.Shape, e.Latents.Data, e.LatentScale)
		out = append(out, fmt.Sprintf("%x", h.Sum(nil)))
	}
	return out
}

func setOf(speeds []float64) *stages.Set {
	s := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
		return transport.Shared(len(speeds)), nil
	}}
	for i := range speeds {
		s.Devices = append(s.Devices, kerneltest.Deferred(cpu.New(1+i%2)))
	}
	return s
}

// TestOnAnySet: the stage gives the same bytes alone, in a batch, on 1, 2 and 8 threads, and on sets that cut columns,
// heads and blocks, with sparse blocks and with masked boxes, of which some ranks have nothing but padding.
func TestOnAnySet(t *testing.T) {
	for _, c := range []struct {
		name, options string
		guidance      float64
	}{
		{"v12", "dtype: fp32", 1}, {"v12", "dtype: bf16", 4}, {"v12", "dtype: fp32, padded_box: [4, 14, 12]", 4},
		{"v13", "dtype: fp32", 4}, {"v13", "dtype: fp32, padded_box: [4, 14, 12]", 1}, {"v13", "dtype: bf16, sample_method: pndm", 1},
	} {
		cfg := goldens(t)[c.name].Config
		s := stageOf(t, cfg, "{"+c.options+"}")
		batch := func() []*stages.Element {
			out := batchOf(3, 9, 48, 64, c.guidance)
			for _, e := range out {
				e.Row.NumInferenceSteps = 4
			}
			return out
		}
		whole := batch()
		if err := s.Check(&whole[0].Row); err != nil {
			t.Fatal(err)
		}
		run := func(what string, batch []*stages.Element, want []string, run func(batch []*stages.Element) error) []string {
			t.Helper()
			if err := run(batch); err != nil {
				t.Fatalf("%v, %s: %v", c, what, err)
			}
			got := digests(t, batch)
			if want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, %s: other bytes", c, what)
			}
			return got
		}
		on := func(threads int) func(batch []*stages.Element) error {
			return func(batch []*stages.Element) error { return s.Run(t.Context(), cpu.New(threads), batch) }
		}
		want := run("", whole, nil, on(1))
		run("8 threads", batch(), want, on(8))
		run("alone", batch()[2:], want[2:], on(2))
		for _, g := range [][3]int{{2, 1, 1}, {3, 1, 1}, {5, 1, 1}, {1, 2, 1}, {3, 2, 1}, {1, 1, 2}, {2, 2, 2}} {
			for _, partition := range []string{"uneven", "pad"} {
				s := stageOf(t, cfg, fmt.Sprintf("{sequence_parallel: %d, tp_size: %d, pp_size: %d, partition: %s, %s}",
					g[0], g[1], g[2], partition, c.options))
				run(fmt.Sprint(g, partition), batch(), want, func(batch []*stages.Element) error {
					return s.Capabilities().Spread.Run(t.Context(), setOf(sequence.Equal(g[0]*g[1]*g[2])), batch)
				})
			}
		}
		run("unequal speeds", batch(), want, func(batch []*stages.Element) error {
			s := stageOf(t, cfg, "{sequence_parallel: 3, "+c.options+"}")
			return s.Capabilities().Spread.Run(t.Context(), setOf([]float64{1, 0.3, 2}), batch)
		})
	}
}
