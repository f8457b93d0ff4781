package osplan

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/fstest"

	"latentbeam/internal/cluster"
	"latentbeam/internal/config"
	"latentbeam/internal/system/testaid"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/diffuse/dit"
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
	s, err := diffuse.Spec([]dit.Family{Denoiser()}, nil, func(*stages.Model) (stages.Reencoder, error) { return nil, nil }).
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
		return cluster.Shared(len(speeds)), nil
	}}
	for i := range speeds {
		s.Devices = append(s.Devices, kerneltest.Deferred(cpu.New(1+i%2)))
	}
	return s
}

// TestOnAnySet: the stage gives the same bytes alone, in a batch, on 1, 2 and 8 threads, and on sets that split columns,
// heads and blocks, with sparse blocks and with masked boxes in which some ranks have only padding.
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
		for i, g := range [][3]int{{2, 1, 1}, {3, 1, 1}, {5, 1, 1}, {1, 2, 1}, {3, 2, 1}, {1, 1, 2}, {2, 2, 2}} {
			for k, partition := range []string{"uneven", "pad"} {
				if testing.Short() && (i+k)%2 == 0 {
					continue
				}
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

// TestGrid is the case of the project's documents: latents of 24x60x80 (93 frames of 480x640) that contain a smaller video,
// whose padding is masked. The network is narrower. Any number of ranks has the same digest, for both versions.
func TestGrid(t *testing.T) {
	testaid.Long(t, "28,800 tokens")
	net := `{"num_attention_heads": 5, "attention_head_dim": 6, "cross_attention_dim": 30, "attention_bias": true, "patch_size": 2,
		"patch_size_t": 1, "activation_fn": "gelu-approximate", "norm_elementwise_affine": false, "norm_eps": 1e-6,
		"caption_channels": 10, "in_channels": 4, "out_channels": 4, `
	for version, cfg := range map[string]string{
		"1.2": net + `"_class_name": "OpenSoraT2V", "num_layers": 1, "norm_type": "ada_norm_single", "use_rope": true,
			"interpolation_scale_t": 1, "interpolation_scale_h": 1, "interpolation_scale_w": 1}`,
		"1.3": net + `"_class_name": "OpenSoraT2V_v1_3", "num_layers": 4, "sparse1d": true, "sparse_n": 4}`,
	} {
		var want string
		for _, ranks := range []int{1, 2, 3, 4, 5, 8} {
			s := stageOf(t, []byte(cfg), fmt.Sprintf("{padded_box: [24, 60, 80], sequence_parallel: %d}", ranks))
			batch := batchOf(1, 37, 208, 272, 1) // latents of 10x26x34
			batch[0].Row.NumInferenceSteps = 1
			if err := s.Check(&batch[0].Row); err != nil {
				t.Fatal(err)
			}
			if err := s.Capabilities().Spread.Run(t.Context(), setOf(sequence.Equal(ranks)), batch); err != nil {
				t.Fatal(err)
			}
			got := digests(t, batch)[0]
			if t.Logf("%s on %d ranks: %s", version, ranks, got); want == "" {
				want = got
			}
			if got != want || fmt.Sprint(batch[0].Latents.Shape) != "[4 10 26 34]" {
				t.Errorf("%s on %d ranks: latents %v with other bytes", version, ranks, batch[0].Latents.Shape)
			}
		}
	}
}
