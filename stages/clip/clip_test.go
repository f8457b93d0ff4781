package clip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"latentbeam/internal/config"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// goldenCase is a case of testdata/golden/clip.json, or the part of one of wan-i2v.json that is about CLIP.
type goldenCase struct {
	Height, Width, Images int
	Encoder               json.RawMessage `json:"image_encoder"`
	Processor             json.RawMessage `json:"image_processor"`
	Embedding             []float32       // of all images
	EmbeddingShape        []int           `json:"embedding_shape"`
}

func goldens(t *testing.T) map[string]goldenCase {
	t.Helper()
	out := map[string]goldenCase{}
	for _, file := range []string{"wan-i2v", "clip"} {
		for name, data := range nntest.Golden(t, "../../testdata/golden/"+file+".json") {
			var c goldenCase
			if nntest.Decode(t, data, &c); c.Encoder != nil {
				out[name] = c
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no case has an image encoder")
	}
	return out
}

// open opens the stage of a case.
func (c goldenCase) open(t *testing.T, options string) (stages.Stage, error) {
	t.Helper()
	cfg, err := ParseConfig(c.Encoder)
	if err != nil {
		return nil, err
	}
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		"image_encoder/config.json":                &fstest.MapFile{Data: c.Encoder},
		"image_encoder/model.safetensors":          &fstest.MapFile{Data: nntest.FileBytes(t, nntest.Shapes(t, cfg, Load))},
		"image_processor/preprocessor_config.json": &fstest.MapFile{Data: c.Processor},
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := config.ParseOptions("embed_image", options)
	if err != nil {
		t.Fatal(err)
	}
	return Spec().New(m, o.Decode)
}

// picture writes the image of a case.
func (c goldenCase) picture(t *testing.T, number int) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
	for j, v := range nntest.Hash(fmt.Sprint("image.", number), 1, c.Height, c.Width, 3) {
		m.Pix[j/3*4+j%3] = byte(min(255, math.Floor((float64(v)+1)*128)))
		m.Pix[j/3*4+3] = 255
	}
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), fmt.Sprint(number, ".png"))
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// element is one with the images of a case.
func (c goldenCase) element(t *testing.T) *stages.Element {
	var paths []string
	for i := range c.Images {
		paths = append(paths, c.picture(t, i))
	}
	e := &stages.Element{}
	e.Row.Reference = strings.Join(paths, ";")
	return e
}

// TestGolden runs the stage against transformers' processor and encoder: from an image to hidden states.
func TestGolden(t *testing.T) {
	cases := goldens(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		run := func(be kernels.Backend, options string) []float32 {
			t.Helper()
			s, err := c.open(t, options)
			if err != nil {
				t.Fatal(err)
			}
			e := c.element(t)
			if err := s.Run(t.Context(), be, []*stages.Element{{}, e}); err != nil || e.Failed != nil {
				t.Fatal(err, e.Failed)
			}
			if n := c.EmbeddingShape; !slices.Equal(e.ImageEmbedding.Shape, []int{n[0] * n[1], n[2]}) {
				t.Errorf("%s: shape %v, want %v", name, e.ImageEmbedding.Shape, n)
			}
			return e.ImageEmbedding.Data
		}
		got := run(cpu.New(1), "")
		diff, largest := nntest.MaxDiff(got, c.Embedding)
		t.Logf("%s: largest difference %.2g of %.3g", name, diff, largest)
		if diff > 1e-5*largest {
			t.Errorf("%s differs by %g of %g from transformers", name, diff, largest)
		}
		for _, be := range []kernels.Backend{cpu.New(2), cpu.New(8), kerneltest.Deferred(cpu.New(2))} {
			if !slices.Equal(run(be, ""), got) {
				t.Errorf("%s: other bytes by other threads", name)
			}
		}
		if rms := nntest.RelativeRMS(run(cpu.New(1), "dtype: bf16"), c.Embedding); !(rms > 1e-4 && rms < 3e-2) {
			t.Errorf("%s in bf16: relative RMS %g", name, rms)
		}
	}
}

// TestWholeCLIP: the config.json of a whole CLIP gives the same image encoder as the encoder's own config.json.
func TestWholeCLIP(t *testing.T) {
	c := goldens(t)["quick_gelu"]
	own, err := ParseConfig(c.Encoder)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ParseConfig(fmt.Appendf(nil, `{"model_type": "clip", "text_config": {"hidden_size": 7}, "vision_config": %s}`, c.Encoder))
	if err != nil || whole != own || own.Act != "quick_gelu" {
		t.Errorf("%+v, %v, want %+v", whole, err, own)
	}
	_, err = ParseConfig([]byte(`{"model_type": "clip", "text_config": {}}`))
	nntest.WantError(t, "a CLIP without images", err, "model_type is")
}

// TestRefuses: unsupported settings are refused by name, and a bad file fails only its row.
func TestRefuses(t *testing.T) {
	c := goldens(t)["clip"]
	for text, want := range map[string]string{
		`{"model_type": "siglip"}`: "model_type is", `{"model_type": "clip_vision_model", "hidden_act": "relu"}`: "hidden_act is",
		`{"model_type": "clip_vision_model", "hidden_act": "gelu", "hidden_size": 30}`:      "no multiple of num_attention_heads",
		`{"model_type": "clip_vision_model", "hidden_act": "gelu", "image_size": 225}`:      "no multiple of patch_size",
		`{"model_type": "clip_vision_model", "hidden_act": "gelu", "num_hidden_layers": 1}`: "num_hidden_layers is 1",
		`{"model_type": "clip_vision_model", "hidden_act": "gelu", "patch_size": 0}`:        "patch_size is 0",
		`{"model_type": "clip_vision_model", "hidden_act": "gelu", "layer_norm_eps": 1}`:    "layer_norm_eps is 1",
		`{"model_type": "clip_vision_model", "hidden_act": "gelu", "num_channels": 4}`:      "num_channels is 4",
		`{`: "parse config.json",
	} {
		_, err := ParseConfig([]byte(text))
		nntest.WantError(t, text, err, want)
	}
	for text, want := range map[string]string{
		`{"image_processor_type": "SiglipImageProcessor"}`: "SiglipImageProcessor", `{"do_resize": false}`: "do_resize",
		`{"resample": 2}`: "resample is 2", `{"crop_size": {"height": 224, "width": 224}}`: "the encoder takes 28",
		`{"image_std": [0, 1, 1]}`: "image_std", `[]`: "parse image_processor", `{}`: "",
	} {
		other := c
		other.Processor = json.RawMessage(text)
		_, err := other.open(t, "")
		nntest.WantError(t, text, err, want)
	}
	_, err := c.open(t, "dtype: fp16")
	nntest.WantError(t, "fp16", err, `dtype is "fp16": give fp32 or bf16`)
	s, err := c.open(t, "")
	if err != nil {
		t.Fatal(err)
	}
	e := c.element(t)
	e.Row.Reference += ";" + filepath.Join(t.TempDir(), "none.png")
	if err := s.Run(t.Context(), cpu.New(1), []*stages.Element{e}); err != nil || e.Failed == nil || e.ImageEmbedding != nil {
		t.Errorf("a file that is not there: %v, %v", err, e.Failed)
	}
	if n, err := s.Need(&e.Row, 1); err != nil || n <= 0 {
		t.Errorf("needs %d, %v", n, err)
	}
}

// TestPublished: the encoder has as many numbers as the published models, less the last layer and the norm after it.
func TestPublished(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"model_type": "clip_vision_model", "hidden_size": 1280, "intermediate_size": 5120,
		"num_hidden_layers": 32, "num_attention_heads": 16, "image_size": 224, "patch_size": 14, "hidden_act": "gelu"}`))
	if err != nil {
		t.Fatal(err)
	}
	numbers := 0
	for _, shape := range nntest.Shapes(t, cfg, Load) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		numbers += n
	}
	const all, last = 630_766_080, 19_677_440 + 2_560 // of CLIPVisionModel; of a layer and the last norm
	if cfg.Tokens() != 257 || numbers != all-last {
		t.Errorf("%d tokens, %d numbers", cfg.Tokens(), numbers)
	}
}

// TestNamesOfTransformers5: an encoder that was saved alone has names without the prefix; they are mapped to the names with
// it.
func TestNamesOfTransformers5(t *testing.T) {
	shapes := weights.Shapes{}
	for name, shape := range map[string][]int{"embeddings.class_embedding": {4}, "embeddings.patch_embedding.weight": {4, 3, 2, 2}, "pre_layrnorm.bias": {4},
		"encoder.layers.0.layer_norm1.weight": {4}, "post_layernorm.weight": {4}} {
		shapes[name] = shape
	}
	for name, got := range bare.Names(shapes) {
		if want := "vision_model." + name; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if bare.Names(weights.Shapes{"vision_model.embeddings.class_embedding": {4}}) != nil {
		t.Error("names with the prefix are changed")
	}
}
