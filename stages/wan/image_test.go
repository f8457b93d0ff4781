package wan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
)

// imageNets are the ways in which a network takes an image, as changes of a config.json.
var imageNets = map[string]map[string]any{
	"first":  {"in_channels": 48, "out_channels": 48},
	"beside": {"in_channels": 36, "out_channels": 16},
	"clip":   {"in_channels": 36, "out_channels": 16, "image_dim": 20, "added_kv_proj_dim": 24},
	"both":   {"in_channels": 36, "out_channels": 16, "image_dim": 20, "added_kv_proj_dim": 24, "pos_embed_seq_len": 6},
}

// imageConfig is a tiny network that takes images.
func imageConfig(t testing.TB, name string) (Config, []byte) {
	t.Helper()
	all := map[string]any{"_class_name": className, "num_attention_heads": 2, "attention_head_dim": 12, "text_dim": 32,
		"ffn_dim": 32, "num_layers": 2}
	maps.Copy(all, imageNets[name])
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, data
}

// imageStage is the stage `denoise` with a tiny network that takes images.
func imageStage(t testing.TB, name, options string) stages.Stage {
	t.Helper()
	cfg, data := imageConfig(t, name)
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		"transformer/config.json": &fstest.MapFile{Data: data},
		"transformer/diffusion_pytorch_model.safetensors": &fstest.MapFile{
			Data: nntest.FileBytes(t, nntest.Shapes(t, cfg, Load))},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := diffuse.Spec([]dit.Family{Denoiser()}, nil, nil).New(m, optionsOf(t, options))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// imageBatch makes elements with images of their own; of a network that takes a first frame the second has none.
func imageBatch(t testing.TB, name string, guidance float64) []*stages.Element {
	t.Helper()
	cfg, _ := imageConfig(t, name)
	d, err := open(cfg, published{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var batch []*stages.Element
	for i := range 3 {
		seed := int64(100 + i)
		e := &stages.Element{Row: rowOf(9, 96, 128, guidance),
			Text: &stages.Text{Embedding: textOf(d, "text", i, 1+i*7), Negative: textOf(d, "negative", i, 1+i)}}
		if batch = append(batch, e); name == "first" && i == 1 {
			e.Row.Seed = &seed
			continue
		}
		size := d.LatentSize(&e.Row)
		if e.Row.Seed, e.Row.Reference = &seed, "a.png"; name == "both" || name == "beside" && i == 1 {
			e.Row.Reference = "a.png;b.png"
		}
		if name == "first" {
			size.T = 1
		}
		shape := []int{cfg.OutChannels, size.T, size.H, size.W}
		e.References = []*stages.Array{{Shape: shape, Data: nntest.Hash(fmt.Sprint("image.", i), 1, shape...)}}
		if cfg.ImageDim != nil {
			e.ImageEmbedding = &stages.Array{Shape: []int{6, 20}, Data: nntest.Hash(fmt.Sprint("clip.", i), 1, 6, 20)}
		}
	}
	return batch
}

// TestImagesOnAnySet: rows with images have the same bytes alone, in a batch, with any number of threads and on sets that
// split columns, heads and blocks; the image changes the result.
func TestImagesOnAnySet(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(imageNets)) {
		for _, options := range []string{"dtype: fp32", "dtype: bf16"} {
			run := func(t *testing.T, s stages.Stage, ranks int, batch []*stages.Element) []string {
				t.Helper()
				for _, e := range batch {
					if err := s.Check(&e.Row); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Capabilities().Spread.Run(t.Context(), setOf(ranks), batch); err != nil {
					t.Fatal(err)
				}
				return digests(t, batch)
			}
			s := imageStage(t, name, "{"+options+"}")
			want := run(t, s, 1, imageBatch(t, name, 4))
			threads := imageBatch(t, name, 4)
			if err := s.Run(t.Context(), cpu.New(8), threads); err != nil {
				t.Fatal(err)
			}
			if got := digests(t, threads); !slices.Equal(got, want) {
				t.Errorf("%s %s: other bytes by 8 threads", name, options)
			}
			for i := range want {
				if got := run(t, s, 1, imageBatch(t, name, 4)[i:i+1]); got[0] != want[i] {
					t.Errorf("%s %s: row %d alone has other bytes", name, options, i)
				}
			}
			other := imageBatch(t, name, 4)[2:]
			z := *other[0].References[0]
			z.Data = slices.Clone(z.Data)
			z.Data[0]++
			other[0].References = []*stages.Array{&z}
			if run(t, s, 1, other)[0] == want[2] {
				t.Errorf("%s %s: the image does not count", name, options)
			}
			for i, g := range [][3]int{{2, 1, 1}, {3, 1, 1}, {5, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 2}} {
				for k, partition := range []string{"uneven", "pad"} {
					if testing.Short() && (i+k)%2 == 0 {
						continue
					}
					s := imageStage(t, name, fmt.Sprintf("{sequence_parallel: %d, tp_size: %d, pp_size: %d, partition: %s, %s}", g[0], g[1],
						g[2], partition, options))
					if got := run(t, s, g[0]*g[1]*g[2], imageBatch(t, name, 4)); !slices.Equal(got, want) {
						t.Errorf("%s %s %v %s: other bytes", name, options, g, partition)
					}
				}
			}
		}
	}
}

// TestImageMistakes: the error names the setting that does not fit.
func TestImageMistakes(t *testing.T) {
	for config, want := range map[string]string{
		`{"in_channels": 36, "image_dim": 20}`:                                            "image_dim and added_kv_proj_dim go together",
		`{"in_channels": 36, "pos_embed_seq_len": 4}`:                                     "pos_embed_seq_len needs both",
		`{"in_channels": 36, "image_dim": 0, "added_kv_proj_dim": 5120}`:                  "image_dim is 0",
		`{"in_channels": 36, "image_dim": 20, "added_kv_proj_dim": 24}`:                   "added_kv_proj_dim is 24",
		`{"image_dim": 20, "added_kv_proj_dim": 5120}`:                                    "take the image beside the latents",
		`{"in_channels":36,"image_dim":2,"added_kv_proj_dim":5120,"pos_embed_seq_len":3}`: "pos_embed_seq_len is 3",
	} {
		_, err := ParseConfig([]byte(config))
		nntest.WantError(t, config, err, want)
	}
	for name, c := range map[string]struct{ reference, want string }{
		"beside": {"", "reference is missing"}, "clip": {"a;b", "takes the first frame alone"},
		"both": {"a", "takes the first and the last frame"}, "first": {"", ""},
	} {
		row := rowOf(9, 96, 128, 4)
		row.Reference = c.reference
		nntest.WantError(t, name, imageStage(t, name, "").Check(&row), c.want)
	}
	for name, c := range map[string]struct {
		change func(e *stages.Element)
		want   string
	}{
		"first":  {func(e *stages.Element) { e.References = nil }, "put `- encode_image: {}` before denoise"},
		"beside": {func(e *stages.Element) { e.References[0].Shape[1] = 1 }, "put `- encode_image: {frames: all}`"},
		"clip":   {func(e *stages.Element) { e.ImageEmbedding = nil }, "put `- embed_image: {}` before denoise"},
		"both":   {func(e *stages.Element) { e.ImageEmbedding.Shape = []int{5, 24} }, "the image embedding has shape [5 24]"},
	} {
		batch := imageBatch(t, name, 4)[:1]
		c.change(batch[0])
		err := imageStage(t, name, "").Run(t.Context(), cpu.New(1), batch)
		if f := batch[0].Failed; f != nil {
			err = fmt.Errorf("%s", f.Message)
		}
		nntest.WantError(t, name, err, c.want)
	}
}

// TestPublishedImages: the published models for images have as many tensors and numbers as their files, and are recognised by
// them.
func TestPublishedImages(t *testing.T) {
	clip, wide, both := 1280, 5120, 514
	for _, c := range []struct {
		image, keys, positions *int
		tensors, numbers       int
	}{{nil, nil, nil, 1095, 14_288_901_184}, {&clip, &wide, nil, 1303, 16_394_878_784}, {&clip, &wide, &both, 1304, 16_395_536_704}} {
		cfg := DefaultConfig()
		cfg.InChannels, cfg.ImageDim, cfg.AddedKV, cfg.ImageTokens = 36, c.image, c.keys, c.positions
		shapes, numbers := nntest.Shapes(t, cfg, Load), 0
		for _, shape := range shapes {
			n := 1
			for _, d := range shape {
				n *= d
			}
			numbers += n
		}
		if len(shapes) != c.tensors || numbers != c.numbers {
			t.Errorf("%d tensors of %d numbers, want %d of %d", len(shapes), numbers, c.tensors, c.numbers)
		}
		config, err := family().Guess(shapes)
		if err != nil {
			t.Fatal(err)
		}
		guessed, err := ParseConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(guessed)
		b, _ := json.Marshal(cfg)
		if string(a) != string(b) {
			t.Errorf("recognised as %s, want %s", a, b)
		}
	}
}
