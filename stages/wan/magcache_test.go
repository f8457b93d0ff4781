package wan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights/safetensors"
)

// magcacheOf are options with the cache magcache, of settings by which a tiny network leaves much out.
func magcacheOf(more string) string {
	return "cache: {name: magcache, ratios: wan2.1-t2v-1.3b, threshold: 0.1, k: 3}\n" + more
}

// TestMagCacheIsOfTheRow: in a sampling that skips blocks, the bytes of a row do not depend on batches, sets, given guidance
// or split weights. If the threshold skips nothing, the bytes are those of a sampling without a cache.
func TestMagCacheIsOfTheRow(t *testing.T) {
	run := func(options string, ranks, n int, guidance float64) []*stages.Element {
		t.Helper()
		batch := batchOf(t, "a_run", n, 9, guidance)
		for _, e := range batch {
			e.Row.NumInferenceSteps = 12
		}
		s := stageOf(t, "a_run", options).Capabilities().Spread
		set := stages.Alone(cpu.New(1))
		if ranks > 1 {
			set = setOf(ranks)
		}
		if err := s.Run(t.Context(), set, batch); err != nil {
			t.Fatal(err)
		}
		return batch
	}
	for _, guidance := range []float64{1, 4} {
		exact := run("", 1, 3, guidance)
		want := run(magcacheOf(""), 1, 3, guidance)
		if slices.Equal(digests(t, want), digests(t, exact)) || want[0].Readings["computed_evaluations"] == want[0].Readings["evaluations"] {
			t.Errorf("guidance %g: nothing was left out: %v", guidance, want[0].Readings)
		}
		never := run("cache: {name: magcache, ratios: wan2.1-t2v-1.3b, threshold: 0.000000001}", 1, 3, guidance)
		if !slices.Equal(digests(t, never), digests(t, exact)) {
			t.Errorf("guidance %g: a cache that leaves nothing out changes the result", guidance)
		}
		if alone := run(magcacheOf(""), 1, 1, guidance); digests(t, alone)[0] != digests(t, want)[0] {
			t.Errorf("guidance %g: a batch changes the result", guidance)
		}
		for ranks := 2; ranks <= 8; ranks++ {
			if got := run(magcacheOf(""), ranks, 3, guidance); !slices.Equal(digests(t, got), digests(t, want)) || !maps.Equal(got[0].Readings, want[0].Readings) {
				t.Errorf("guidance %g: %d ranks change the result", guidance, ranks)
			}
		}
		if got := run(magcacheOf("tp_size: 2\nsequence_parallel: 2"), 4, 3, guidance); !slices.Equal(digests(t, got), digests(t, want)) {
			t.Errorf("guidance %g: tp_size changes the result", guidance)
		}
		part := run(magcacheOf("guidance_interval: [0.3, 0.8]"), 1, 2, guidance)
		for _, ranks := range []int{2, 3} {
			if got := run(magcacheOf("guidance_interval: [0.3, 0.8]"), ranks, 2, guidance); !slices.Equal(digests(t, got), digests(t, part)) {
				t.Errorf("guidance %g: %d ranks change the result in guidance_interval", guidance, ranks)
			}
		}
	}
}

// TestMagCacheResumes: a row that resumes from any saved state, on another set, has the same bytes and counts.
func TestMagCacheResumes(t *testing.T) {
	run := func(ranks int, begun *stages.Steps, saved *[]stages.Steps) *stages.Element {
		t.Helper()
		e := batchOf(t, "a_run", 1, 9, 4)[0]
		e.Row.NumInferenceSteps, e.Begun = 16, begun
		set := stages.Alone(cpu.New(1))
		if ranks > 1 {
			set = setOf(ranks)
		}
		set.Saving = &stages.Saving{Save: func(_ context.Context, rows []stages.Saved) {
			if saved != nil {
				*saved = append(*saved, rows[0].Steps)
			}
		}}
		if err := stageOf(t, "a_run", magcacheOf("")).Capabilities().Spread.Run(t.Context(), set, []*stages.Element{e}); err != nil {
			t.Fatal(err)
		}
		return e
	}
	var all []stages.Steps
	want := run(1, nil, &all)
	if n := len(all); n < 4 || n > 14 {
		t.Fatalf("%d states are saved of 15", n)
	}
	for i := range all {
		got := run(1+i%3, &all[i], nil)
		if !slices.Equal(digests(t, []*stages.Element{got}), digests(t, []*stages.Element{want})) || !maps.Equal(got.Readings, want.Readings) {
			t.Errorf("resumed after step %d, the row has other bytes: %v, want %v", all[i].Done, got.Readings, want.Readings)
		}
	}
}

// TestCachesAsPublished: with the same noise, a tiny network skips as many evaluations as the authors' code over diffusers
// does, and its latents are the same within 1e-4. testdata/caches.json says how the expected values were made.
func TestCachesAsPublished(t *testing.T) {
	var golden struct {
		Config   json.RawMessage
		Steps    int
		Guidance float64
		Cases    map[string]struct {
			Options  string
			Computed int
			Latents  []float32
		}
	}
	data, err := os.ReadFile("testdata/caches.json")
	if err != nil {
		t.Fatal(err)
	}
	nntest.Decode(t, data, &golden)
	cfg, err := ParseConfig(golden.Config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stages.EmbeddedModel("test", fstest.MapFS{"transformer/config.json": &fstest.MapFile{Data: golden.Config},
		"transformer/diffusion_pytorch_model.safetensors": &fstest.MapFile{Data: nntest.FileBytes(t, nntest.Shapes(t, cfg, Load))}})
	if err != nil {
		t.Fatal(err)
	}
	noise := filepath.Join(t.TempDir(), "noise.safetensors")
	var b bytes.Buffer
	shape := []int{16, 2, 4, 6}
	if err := safetensors.Write(&b, map[string]safetensors.Tensor{"noise": nntest.Tensor(nntest.Hash("noise", 1.7, shape...), shape...)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(noise, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := open(cfg, published{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range golden.Cases {
		s, err := diffuse.Spec([]dit.Family{Denoiser()}, nil, nil).New(m, optionsOf(t, c.Options))
		if err != nil {
			t.Fatal(err)
		}
		seed := int64(1)
		e := &stages.Element{Row: rowOf(5, 32, 48, golden.Guidance), Text: &stages.Text{Embedding: textOf(d, "text", 0, 5), Negative: textOf(d, "negative", 0, 3)}}
		e.Row.Seed, e.Row.NumInferenceSteps, e.Row.Noise = &seed, golden.Steps, noise
		if err := s.Run(t.Context(), cpu.New(1), []*stages.Element{e}); err != nil || e.Failed != nil {
			t.Fatal(err, e.Failed)
		}
		diff, largest := nntest.MaxDiff(e.Latents.Data, c.Latents)
		t.Logf("%s: largest difference %.2g of %.3g, %v", name, diff, largest, e.Readings)
		if !(diff <= 1e-4) || name != "exact" && e.Readings["computed_evaluations"] != fmt.Sprint(c.Computed) {
			t.Errorf("%s: differs by %g, %s evaluations are computed, want %d", name, diff, e.Readings["computed_evaluations"], c.Computed)
		}
	}
}

// TestMagCacheRatios: the table has a ratio for each branch of each step, and a model finds its table by its shape.
func TestMagCacheRatios(t *testing.T) {
	for name, r := range readRatios() {
		if n := len(r.Ratios); n != 98 && n != 78 || r.K < 2 || r.Threshold <= 0 {
			t.Errorf("%s: %d ratios, K %d, threshold %g", name, n, r.K, r.Threshold)
		}
	}
	open := func(config, options string) error {
		_, err := open(must(ParseConfig([]byte(config)))(t), published{}, optionsOf(t, options))
		return err
	}
	tiny := string(goldens(t)["a_run"].Config)
	nntest.WantError(t, "shape", open(tiny, "cache: {name: magcache}"), "measured no ratios of a model of this shape")
	nntest.WantError(t, "name", open(tiny, "cache: {name: magcache, ratios: flux}"), `cache.ratios is "flux": there are wan2.1-i2v-14b-480p`)
	nntest.WantError(t, "14B", open(`{"_class_name": "WanTransformer3DModel"}`, "cache: {name: magcache}"), "")
	const image = `{"_class_name": "WanTransformer3DModel", "in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120}`
	nntest.WantError(t, "I2V", open(image, "cache: {name: magcache}"), "wan2.1-i2v-14b-480p or wan2.1-i2v-14b-720p")
	nntest.WantError(t, "I2V by name", open(image, "cache: {name: magcache, ratios: wan2.1-i2v-14b-480p}"), "")
}

func must(c Config, err error) func(t *testing.T) Config {
	return func(t *testing.T) Config {
		t.Helper()
		if err != nil {
			t.Fatal(fmt.Errorf("config: %w", err))
		}
		return c
	}
}
