package vae

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// configOf is the config.json of a golden case.
func configOf(t *testing.T, name string) []byte {
	t.Helper()
	for _, file := range []string{"open-sora-vae", "wan-vae", "osplan-vae"} {
		if data, ok := nntest.Golden(t, "../../testdata/golden/"+file+".json")[name]; ok {
			var c struct {
				Config json.RawMessage `json:"config"`
			}
			nntest.Decode(t, data, &c)
			return c.Config
		}
	}
	t.Fatalf("no case %s", name)
	return nil
}

// modelOf is a model whose only component is the autoencoder of a golden case, with hashed weights.
func modelOf(t *testing.T, name string) *stages.Model {
	t.Helper()
	config := configOf(t, name)
	cfg, err := ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stages.EmbeddedModel(name, fstest.MapFS{"vae/config.json": {Data: config},
		"vae/model.safetensors": {Data: nntest.FileBytes(t, nntest.Shapes(t, cfg, Load))}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// componentOf is its autoencoder.
func componentOf(t *testing.T, name, dtype string) *component {
	t.Helper()
	c, err := Open(modelOf(t, name), "test", dtype)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func opened(t *testing.T, spec stages.Spec, m *stages.Model) stages.Stage {
	t.Helper()
	s, err := spec.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDType: which types an autoencoder computes in.
func TestDType(t *testing.T) {
	for _, c := range []struct{ name, dtype, says string }{
		{"vae_kl_fp32", "fp16", ""}, {"vae_kl_fp32", "bf16", ""}, {"vae_v1_2_1frames_fp32", "bf16", ""},
		{"vae_v1_2_1frames_fp32", "fp16", "published for bf16"}, {"vae_v1_3_1frame_fp32", "fp16", "published for bf16"},
		{"wan21_1frame", "bf16", ""}, {"wan21_1frame", "fp16", "published for bf16"},
		{"vae_kl_fp32", "int8", "give fp32, bf16, or with AutoencoderKL fp16"},
	} {
		_, err := Spec().New(modelOf(t, c.name), func(options any) error {
			options.(*decodeOptions).DType = c.dtype
			return nil
		})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s in %s: %v", c.name, c.dtype, err)
		}
	}
}

// TestStages encodes and decodes a clip with every architecture: the stages read the architecture from config.json, and agree
// on shapes and scale.
func TestStages(t *testing.T) {
	for _, c := range []struct {
		name   string
		row    schemas.PromptRow
		shape  []int // of the latents
		scale  float64
		frames [3]int // number, height and width of what comes back
	}{
		{"vae_kl_fp32", schemas.PromptRow{NumFrames: 3, Height: 16, Width: 27}, []int{4, 3, 2, 3}, 0.13025,
			[3]int{3, 16, 24}},
		{"vae_v1_2_17frames_fp32", schemas.PromptRow{NumFrames: 6, Height: 19, Width: 24}, []int{4, 2, 2, 3}, 1,
			[3]int{6, 16, 24}},
		{"vae_v1_3_1frame_fp32", schemas.PromptRow{NumFrames: 1, Height: 16, Width: 16}, []int{16, 1, 2, 2}, 1,
			[3]int{1, 16, 16}},
		{"wan21_5frames", schemas.PromptRow{NumFrames: 5, Height: 16, Width: 27}, []int{4, 2, 2, 3}, 1, [3]int{5, 16, 24}},
		{"wan22_5frames", schemas.PromptRow{NumFrames: 5, Height: 32, Width: 48}, []int{6, 2, 2, 3}, 1, [3]int{5, 32, 48}},
	} {
		m, be, seed := modelOf(t, c.name), cpu.New(2), int64(5)
		encode, decode := opened(t, Encode(), m), opened(t, Spec(), m)
		c.row.Media, c.row.FPS, c.row.Seed = "../../testdata/media/square.y4m", 8, &seed
		for _, s := range []stages.Stage{encode, decode} {
			if need, err := s.Need(&c.row, 1); err != nil || need <= 0 || s.Check(&c.row) != nil {
				t.Errorf("%s: needs %d, %v, %v", c.name, need, err, s.Check(&c.row))
			}
		}
		e, alone := &stages.Element{Row: c.row}, &stages.Element{Row: c.row}
		bad := &stages.Element{Row: c.row}
		bad.Row.Media = "../../testdata/media/nothing.y4m"
		if err := encode.Run(context.Background(), be, []*stages.Element{bad, e}); err != nil {
			t.Fatal(err)
		}
		if bad.Failed == nil || !strings.Contains(bad.Failed.Message, "nothing.y4m: no such file") ||
			bad.Latents != nil {
			t.Errorf("%s: a missing file: %v", c.name, bad.Failed)
		}
		if e.Failed != nil || !slices.Equal(e.Latents.Shape, c.shape) || e.LatentScale != c.scale {
			t.Fatalf("%s: %v, latents %v, scale %v", c.name, e.Failed, e.Latents.Shape, e.LatentScale)
		}
		if err := encode.Run(context.Background(), be, []*stages.Element{alone}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone.Latents.Data, e.Latents.Data) {
			t.Errorf("%s: other latents alone", c.name)
		}
		wrong := &stages.Element{Row: c.row, Latents: stages.NewArray(4, 1, 1, 1)}
		if err := decode.Run(context.Background(), be, []*stages.Element{wrong, e}); err != nil {
			t.Fatal(err)
		}
		if wrong.Failed == nil || !strings.Contains(wrong.Failed.Message, "the latents have shape [4 1 1 1]") {
			t.Errorf("%s: wrong latents: %v", c.name, wrong.Failed)
		}
		if f := e.Frames; len(f.Frames) != c.frames[0] || f.Height != c.frames[1] || f.Width != c.frames[2] ||
			f.Validate() != nil {
			t.Errorf("%s: %d frames of %dx%d", c.name, len(f.Frames), f.Width, f.Height)
		}
	}
}

// TestStatisticsOfTheFile: an autoencoder of Open-Sora 1.2 states the shift and the scale of its weights, by which its
// latents become latents of denoisers.
func TestStatisticsOfTheFile(t *testing.T) {
	for _, name := range []string{"vae_v1_2_1frames_fp32", "vae_v1_2_17frames_fp32", "vae_v1_2_23frames_fp32"} {
		s := opened(t, Encode(), modelOf(t, name)).(*encodeStage)
		space := s.Capabilities().LatentSpace()
		be := cpu.New(1)
		model, err := s.On(be)
		if err != nil {
			t.Fatal(err)
		}
		raw := stages.NewArray(len(space.Mean), 2, 3, 4)
		copy(raw.Data, nntest.Hash("raw", 2, raw.Shape...))
		got, err := model.ForDenoiser(be, raw)
		if err != nil || len(space.Mean) == 0 || len(space.Std) != len(space.Mean) {
			t.Fatalf("%s: %v, %v, %v", name, space.Mean, space.Std, err)
		}
		for i, v := range raw.Data {
			want := (float64(v) - space.Mean[i/24]) / space.Std[i/24]
			if math.Abs(float64(got.Data[i])-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("%s: value %d is %g, want %g", name, i, got.Data[i], want)
			}
		}
	}
}
