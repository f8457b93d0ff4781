package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/stages/vae/osplan/causal"
)

// The published configurations.
const (
	publishedText = `{"model_type": "mt5", "vocab_size": 250112, "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
		"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6, "feed_forward_proj": "gated-gelu"}`
	publishedNet = `{"num_attention_heads": 24, "attention_head_dim": 96, "cross_attention_dim": 2304, "attention_bias": true, "patch_size": 2,
		"patch_size_t": 1, "activation_fn": "gelu-approximate", "norm_elementwise_affine": false, "norm_eps": 1e-6, "caption_channels": 4096, "num_layers": 32, `
	publishedNet12 = publishedNet + `"_class_name": "OpenSoraT2V", "in_channels": 4, "out_channels": 4, "norm_type": "ada_norm_single", "use_rope": true,
		"sample_size": [60, 80], "sample_size_t": 24, "interpolation_scale_t": 1, "interpolation_scale_h": 1, "interpolation_scale_w": 1}`
	publishedNet13 = publishedNet + `"_class_name": "OpenSoraT2V_v1_3", "in_channels": 8, "out_channels": 8, "sparse1d": true, "sparse_n": 4}`
	publishedVAE13 = `{"_class_name": "WFVAEModel", "norm_type": "layernorm", "t_interpolation": "trilinear", "connect_res_layer_num": 2}`

	publishedWanText = `{"model_type": "umt5", "vocab_size": 256384, "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
		"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6, "feed_forward_proj": "gated-gelu"}`
	publishedWan = `{"_class_name": "WanTransformer3DModel", "attention_head_dim": 128, "cross_attn_norm": true, "eps": 1e-6, "ffn_dim": 8960, "freq_dim": 256,
		"in_channels": 16, "num_attention_heads": 12, "num_layers": 30, "out_channels": 16, "patch_size": [1, 2, 2], "text_dim": 4096}`
	publishedWanVAE = `{"_class_name": "AutoencoderKLWan", "base_dim": 96, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2,
		"temperal_downsample": [false, true, true], "z_dim": 16, "latents_mean": [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
		0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921], "latents_std": [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052,
		2.0743, 3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.916]}`
)

// TestPlanWithoutWeights: a model that has only its configuration files is planned like the same model with weights. A run fails
// and says that the weights are missing.
func TestPlanWithoutWeights(t *testing.T) {
	s := newShell(t, "prompts.csv", "prompt,seed\na red disc moves to the left,1\n")
	for dir, lacks := range map[string][]string{"whole": nil, "configs": {".safetensors"}, "alone": {".safetensors", ".model"}} {
		err := os.CopyFS(filepath.Join(s.dir, dir), os.DirFS("../../testdata/tiny"))
		for _, end := range lacks {
			files, _ := filepath.Glob(filepath.Join(s.dir, dir, "*", "*"+end))
			if len(files) == 0 {
				t.Fatal("the model has no weights to remove")
			}
			for _, file := range files {
				err = errors.Join(err, os.Remove(file))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		s.write(dir+".yaml", fmt.Sprintf("version: 1\nmodel: ./%s\ninput: {prompts: prompts.csv}\noutput: {path: out}\n"+
			"stages: [encode_text, denoise, decode_vae, encode_video]\n", dir))
	}
	whole := s.run(0, "plan", "whole.yaml", "--devices", "2xT4-16GB")
	for dir, lacks := range map[string]string{
		"configs": "not here: weights of text_encoder, weights of transformer, weights of vae; memory and time",
		"alone":   "not here: weights of text_encoder, a tokenizer, weights of transformer, weights of vae; memory and time",
	} {
		planned := s.run(0, "plan", dir+".yaml", "--devices", "2xT4-16GB")
		at := strings.Index(planned, "\n"+lacks)
		if at < 0 {
			t.Errorf("%s: got the plan\n%s", dir, planned)
			continue
		}
		end := at + 2 + strings.Index(planned[at+1:], "\n")
		if rest := planned[:at] + planned[end:]; rest != whole {
			t.Errorf("%s: without weights, the plan is\n%s\nwith weights it is\n%s", dir, rest, whole)
		}
		if dry := s.run(0, "run", dir+".yaml", "--dry-run"); !strings.Contains(dry, "warning: "+lacks) {
			t.Errorf("%s: the dry run prints\n%s", dir, dry)
		}
		if run := s.run(2, "run", dir+".yaml"); !strings.Contains(run, "open weights of text_encoder") {
			t.Errorf("%s: the run prints\n%s", dir, run)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "out")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the run created an output")
		}
	}
}

// writeConfigs writes the configuration files of a model, without weights.
func (s shell) writeConfigs(dir string, configs map[string]string) {
	s.t.Helper()
	for component, text := range configs {
		if err := os.MkdirAll(filepath.Join(s.dir, dir, component), 0o755); err != nil {
			s.t.Fatal(err)
		}
		s.write(filepath.Join(dir, component, "config.json"), text)
	}
}

// TestPlansOfPublishedModels: models of published sizes are planned from their configurations, for 1 or 8 cards.
func TestPlansOfPublishedModels(t *testing.T) {
	if testing.Short() {
		t.Skip("make check runs it: it takes a minute")
	}
	s := newShell(t, "prompts.csv", "prompt,seed\na sailing boat at sunset,1\n")
	s.writeConfigs("osplan-v1.2", map[string]string{"text_encoder": publishedText, "transformer": publishedNet12, "vae": causalPublished(t)})
	s.writeConfigs("osplan-v1.3", map[string]string{"text_encoder": publishedText, "transformer": publishedNet13, "vae": publishedVAE13})
	s.writeConfigs("wan2.1-t2v-1.3b", map[string]string{"text_encoder": publishedWanText, "transformer": publishedWan, "vae": publishedWanVAE})
	s.write("wan2.1-t2v-1.3b/model_index.json", `{"_class_name": "WanPipeline"}`)
	for _, c := range []struct{ preset, model, cards string }{
		{"osplan-v1.2-29x480p", "osplan-v1.2", "1xH100-80GB"},
		{"osplan-v1.2-93x720p", "osplan-v1.2", "8xH100-80GB"},
		{"osplan-v1.3-93x640p", "osplan-v1.3", "8xH100-80GB"},
		{"wan2.1-t2v-1.3b-480p", "wan2.1-t2v-1.3b", "1xH100-80GB"},
	} {
		s.write("job.yaml", fmt.Sprintf("version: 1\nmodel: ./%s\npreset: %s\ninput: {prompts: prompts.csv}\noutput: {path: out}\n"+
			"stages: [{encode_text: {dtype: bf16}}, {denoise: {dtype: bf16}}, {decode_vae: {dtype: bf16}}, encode_video]\n", c.model, c.preset))
		planned := s.run(0, "plan", "job.yaml", "--devices", c.cards)
		t.Logf("%s on %s\n%s", c.preset, c.cards, planned)
		if !strings.Contains(planned, "not here: weights of text_encoder, a tokenizer, weights of transformer, weights of vae;") ||
			!strings.Contains(planned, "\npredicted: ") {
			t.Errorf("%s on %s: got the plan\n%s", c.preset, c.cards, planned)
		}
	}
}

// causalPublished is the configuration of the autoencoder of Open-Sora 1.2.
func causalPublished(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(causal.NewPublished())
	if err != nil {
		t.Fatal(err)
	}
	return `{"_class_name": "CausalVAEModel", ` + string(data[1:])
}
