package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/score"
	"latentbeam/stages/stdit"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
	"latentbeam/testdata/tiny"
)

// published returns the tensors of the denoisers that Open-Sora published, from the list of their state dicts.
func published(t *testing.T) map[string][]safetensors.TensorInfo {
	t.Helper()
	out := map[string][]safetensors.TensorInfo{}
	for model, data := range nntest.Golden(t, "../../testdata/golden/open-sora-tensors.json") {
		var d struct {
			Config struct{ Depth int }
			Shapes map[string][]int // * stands for the numbers of the blocks
		}
		nntest.Decode(t, data, &d)
		for name, shape := range d.Shapes {
			if !strings.Contains(name, "*") {
				out[model] = append(out[model], safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
				continue
			}
			for i := range max(d.Config.Depth, 28) {
				name := strings.Replace(name, "*", fmt.Sprint(i), 1)
				out[model] = append(out[model], safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
			}
		}
	}
	return out
}

// requested returns the tensors that a family's model of this configuration wants.
func requested(t *testing.T, f weights.Family, config string) (tensors []safetensors.TensorInfo) {
	t.Helper()
	w := weights.ShapesOnly()
	if _, err := f.Load([]byte(config), w); err != nil {
		t.Fatal(err)
	}
	for name, shape := range w.Requested() {
		tensors = append(tensors, safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
	}
	return tensors
}

const (
	xxl = `{"model_type": "t5", "vocab_size": 32128, "d_model": 4096, "d_kv": 64, "num_heads": 64, "d_ff": 10240,
		"num_layers": 24, "feed_forward_proj": "gated-gelu"}`
	umt5 = `{"model_type": "umt5", "vocab_size": 256384, "d_model": 4096, "d_kv": 64, "num_heads": 64, "d_ff": 10240,
		"num_layers": 24}`
	mt5 = `{"model_type": "mt5", "vocab_size": 250112, "d_model": 4096, "d_kv": 64, "num_heads": 64, "d_ff": 10240,
		"num_layers": 24}`
	sdVAE  = `{"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2}`
	vae12  = `{"model_type": "VideoAutoencoderPipeline", "scale": [3.85, 2.32, 2.33, 3.06], "shift": [-0.1, 0.34, 0.27, 0.98]}`
	vae13  = `{"model_type": "OpenSoraVAE_V1_3_Pipline"}`
	vaeWan = `{"_class_name": "AutoencoderKLWan"}`
)

// scoreModels are configurations of the models that measures look through.
var scoreModels = map[string]string{
	"clip": `{"model_type": "clip", "projection_dim": 512, "text_config": {}, "vision_config": {"hidden_size": 768,
		"intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "patch_size": 32, "image_size": 224}}`,
	"dino": `{"model_type": "vit", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072,
		"patch_size": 16, "image_size": 224, "hidden_act": "gelu", "layer_norm_eps": 1e-12}`,
	"raft":           "{}",
	"amt":            "{}",
	"musiq":          `{"hidden_size": 384, "intermediate_size": 1152, "num_hidden_layers": 14}`,
	"aesthetic_head": `{"width": 768}`,
}

// TestPublishedModelsAreRecognised by their tensors alone, and their configuration made of them takes every
// tensor.
func TestPublishedModelsAreRecognised(t *testing.T) {
	all := published(t)
	all["t5-v1_1-xxl"] = append(requested(t, t5.Family(), xxl), safetensors.TensorInfo{Name: "decoder.final_layer_norm.weight",
		DType: "F32", Shape: []int{4096}}) // google's have the decoder too
	all["umt5-xxl"] = requested(t, t5.Family(), umt5)
	all["mt5-xxl"] = requested(t, t5.Family(), mt5)
	all["sd-vae-ft"] = requested(t, vae.Family(), sdVAE)
	all["OpenSora-VAE-v1.2"] = requested(t, vae.Family(), vae12)
	all["OpenSora-VAE-v1.3"] = requested(t, vae.Family(), vae13)
	all["Wan2.1-VAE"] = requested(t, vae.Family(), vaeWan)
	for _, f := range score.Families() {
		all[f.Component] = requested(t, f, scoreModels[f.Component])
	}
	for model, want := range map[string]string{
		"clip":                  "CLIP: images of 224 pixels in patches of 32 through 12 layers of width 768, texts through 12 of width 512",
		"dino":                  "DINO vision transformer: 12 layers, width 768, 12 heads, patches of 16 pixels",
		"raft":                  "RAFT, optical flow",
		"amt":                   "AMT-S, frames between frames",
		"musiq":                 "MUSIQ, image quality: 14 layers, width 384",
		"aesthetic_head":        "linear head of an aesthetic predictor, for embeddings of width 768",
		"stdit_v1_0_16x256x256": "STDiT of Open-Sora 1.0: depth 28, width 1152, 16 heads, 4 latent channels",
		"stdit2_v1_1":           "STDiT2 of Open-Sora 1.1: depth 28, width 1152, 16 heads, 4 latent channels",
		"stdit3_v1_2":           "STDiT3 of Open-Sora 1.2: depth 28, width 1152, 16 heads, 4 latent channels",
		"stdit3_v1_2_3b":        "STDiT3 of Open-Sora 1.2: depth 28, width 1872, 26 heads, 4 latent channels",
		"stdit3_v1_3":           "STDiT3 of Open-Sora 1.3: depth 28, width 1152, 16 heads, 16 latent channels",
		"t5-v1_1-xxl":           "T5 v1.1 encoder: 24 layers, width 4096, 64 heads, vocabulary 32128",
		"umt5-xxl":              "UMT5 encoder: 24 layers, width 4096, 64 heads, vocabulary 256384",
		"mt5-xxl":               "mT5 encoder: 24 layers, width 4096, 64 heads, vocabulary 250112",
		"sd-vae-ft":             "AutoencoderKL (2D)",
		"OpenSora-VAE-v1.2":     "autoencoder of Open-Sora 1.2 (2D and temporal)",
		"OpenSora-VAE-v1.3":     "autoencoder of Open-Sora 1.3 (causal 3D)",
		"Wan2.1-VAE":            "autoencoder of Wan 2.1 (causal 3D, 16 latent channels)",
	} {
		tensors := all[model]
		found, err := Recognize(tensors, nil)
		if err != nil || found.Name != want || len(found.Misfits) > 0 || !found.Guessed {
			t.Errorf("%s: %+v, %v, want %s", model, found, err, want)
		}
		if len(tensors) <= 2 { // a head is known by its two
			continue
		}
		i := slices.IndexFunc(tensors, func(t safetensors.TensorInfo) bool {
			return strings.HasSuffix(t.Name, ".bias") ||
				t.Name == "encoder.final_layer_norm.weight"
		})
		gone := tensors[i].Name
		tensors[i] = safetensors.TensorInfo{Name: "stranger", DType: "F32", Shape: []int{1}}
		found, err = Recognize(tensors, nil)
		var kinds []string
		for _, m := range found.Misfits {
			kinds = append(kinds, m.Kind+" "+m.Name)
		}
		slices.Sort(kinds)
		if !slices.Equal(kinds, []string{"missing " + gone, "unexpected stranger"}) || err != nil {
			t.Errorf("%s without %s: %q, %v", model, gone, kinds, err)
		}
	}
}

// TestGuessedConfigurations: the configuration that Guess makes from the tensors of Open-Sora 1.0, whose files were published
// without one.
func TestGuessedConfigurations(t *testing.T) {
	tensors := published(t)["stdit_v1_0_16x256x256"]
	shapes := weights.ShapesOf(tensors)
	for _, c := range []struct {
		s, frames        int
		space, timeScale float64
	}{{256, 16, 0.5, 1}, {1024, 16, 1, 1}, {1024, 64, 1, 2.0 / 3}} {
		shapes["pos_embed"], shapes["pos_embed_temporal"] = []int{1, c.s, 1152}, []int{1, c.frames, 1152}
		data, err := stdit.Denoiser().Checkpoint.Guess(shapes)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := stdit.ParseConfig(data)
		if err != nil || cfg.SpaceScale != c.space || cfg.TimeScale != c.timeScale || cfg.InputSize[0] != c.frames ||
			cfg.ModelMaxLength != 120 || cfg.NumHeads != 16 || !cfg.PredSigma || cfg.MLPRatio != 4 {
			t.Errorf("%d patches, %d frames: %+v, %v", c.s, c.frames, cfg, err)
		}
	}
	delete(shapes, "x_embedder.proj.weight")
	if data, err := stdit.Denoiser().Checkpoint.Guess(shapes); err == nil {
		t.Errorf("a denoiser without its first layer: %s", data)
	}
}

// TestTinyIsRecognised: the built-in model with its own configurations, and what Guess says of its parts.
func TestTinyIsRecognised(t *testing.T) {
	m, err := stages.EmbeddedModel("tiny", tiny.Files())
	if err != nil {
		t.Fatal(err)
	}
	for component, guess := range map[string]string{"text_encoder": "", "vae": "", "transformer": "write a config.json"} {
		weights, err := m.Weights(component)
		if err != nil {
			t.Fatal(err)
		}
		config, err := m.Config(component)
		if err != nil {
			t.Fatal(err)
		}
		var tensors []safetensors.TensorInfo
		for _, name := range weights.Names() {
			x, _ := weights.Tensor(name)
			tensors = append(tensors, safetensors.TensorInfo{Name: name, DType: x.DType, Shape: x.Shape})
		}
		found, err := Recognize(tensors, config)
		if err != nil || found.Component != component || len(found.Misfits) > 0 || found.Guessed {
			t.Errorf("%s: %+v, %v", component, found, err)
		}
		if _, err := Guess(component, weights); (err == nil) != (guess == "") || err != nil && !strings.Contains(err.Error(), guess) {
			t.Errorf("%s: Guess says %v, want %q", component, err, guess)
		}
		if _, err := Guess("tokenizer", weights); err == nil {
			t.Errorf("%s is taken for a tokenizer", component)
		}
		if _, err := Recognize(tensors, []byte("{")); err == nil {
			t.Errorf("%s: a broken config.json passed", component)
		}
	}
	if found, err := Recognize([]safetensors.TensorInfo{{Name: "x", DType: "F32"}}, nil); err != nil || found.Component != "" {
		t.Errorf("a tensor of no model: %+v, %v", found, err)
	}
}
