package models

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/media/marks"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/osplan"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
)

// The configurations of small models of Open-Sora-Plan.
const (
	planText = `{"model_type": "mt5", "vocab_size": 2800, "d_model": 10, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2,
		"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6,
		"feed_forward_proj": "gated-gelu"}`
	planVAE12 = `{"_class_name": "CausalVAEModel", "hidden_size": 32, "hidden_size_mult": [1, 1, 1, 1], "num_res_blocks": 1}`
	planVAE13 = `{"_class_name": "WFVAEModel", "norm_type": "layernorm", "latent_dim": 8, "base_channels": 8, "encoder_energy_flow_hidden_size": 4,
		"decoder_energy_flow_hidden_size": 8, "scale": [0.18215, 0.18215, 0.18215, 0.18215, 0.18215, 0.18215, 0.18215, 0.18215],
		"shift": [0, 0, 0, 0, 0, 0, 0, 0]}`
	planNet = `{"num_attention_heads": 3, "attention_head_dim": 12, "cross_attention_dim": 36, "attention_bias": true, "patch_size": 2,
		"patch_size_t": 1, "activation_fn": "gelu-approximate", "norm_elementwise_affine": false, "norm_eps": 1e-6,
		"caption_channels": 10, `
	planNet12 = planNet + `"_class_name": "OpenSoraT2V", "in_channels": 4, "out_channels": 4, "num_layers": 2,
		"norm_type": "ada_norm_single", "use_rope": true, "sample_size": [4, 6], "sample_size_t": 2, "interpolation_scale_t": 1,
		"interpolation_scale_h": 1, "interpolation_scale_w": 1}`
	planNet13 = planNet + `"_class_name": "OpenSoraT2V_v1_3", "in_channels": 8, "out_channels": 8, "num_layers": 5, "sparse1d": true,
		"sparse_n": 4, "sample_size_t": 2, "sample_size_h": 4, "sample_size_w": 6}`
)

// planDir writes a small model into a directory with the published names of its components. It has no model_index.json, like the
// published models.
func planDir(t *testing.T, transformer, autoencoder string) string {
	t.Helper()
	dir := wanDir(t, wanCases(t)["unipc"]) // for its tokenizer
	for _, name := range []string{"model_index.json", "scheduler", "text_encoder", "transformer", "vae"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := t5.ParseConfig([]byte(planText))
	if err != nil {
		t.Fatal(err)
	}
	net, err := osplan.ParseConfig([]byte(transformer))
	if err != nil {
		t.Fatal(err)
	}
	vaeConfig, err := vae.ParseConfig([]byte(autoencoder))
	if err != nil {
		t.Fatal(err)
	}
	jobtest.WriteFile(t, dir, "text_encoder/config.json", []byte(planText))
	jobtest.WriteFile(t, dir, "text_encoder/model.safetensors", tensorsOf(t, nntest.Shapes(t, text, t5.Load), ""))
	jobtest.WriteFile(t, dir, "transformer/config.json", []byte(transformer))
	jobtest.WriteFile(t, dir, "transformer/diffusion_pytorch_model.safetensors", tensorsOf(t, nntest.Shapes(t, net, osplan.Load), ""))
	jobtest.WriteFile(t, dir, "vae/config.json", []byte(autoencoder))
	jobtest.WriteFile(t, dir, "vae/diffusion_pytorch_model.safetensors", tensorsOf(t, nntest.Shapes(t, vaeConfig, vae.Load), ""))
	return dir
}

// TestPlanJobs: a job needs only a directory of Open-Sora-Plan, of either version, and a table of prompts. Templates, the negative
// prompt, the sampler and sizes are the published ones. A rerun computes nothing, and any number of workers gives the same latents.
func TestPlanJobs(t *testing.T) {
	for _, c := range []struct {
		version, transformer, vae, usual, other string
		fps                                     float64
	}{
		{"1.2", planNet12, planVAE12, "osp12-single", "osp12-multi", 24}, {"1.3", planNet13, planVAE13, "osp13", "none", 18},
	} {
		t.Run(c.version, func(t *testing.T) {
			dir, table := planDir(t, c.transformer, c.vae), jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball,1\na cat,2\n")
			var latents [][]float32
			look := jobtest.Passive("look", func(_ context.Context, batch []*stages.Element) error {
				for _, e := range batch {
					latents = append(latents, slices.Clone(e.Latents.Data))
				}
				return nil
			})
			run := func(out, extra string, sets ...string) [][]float32 {
				t.Helper()
				text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, write: [video, embeddings]}\n"+
					"defaults: {num_inference_steps: 3}\nstages: [encode_text, denoise, look, decode_vae, encode_video]\n%s", dir, table, out, extra)
				latents = nil
				r, err := runYAML(t, text, sets, look)
				if err != nil || r.Totals.Failed != 0 || int(r.Done) != len(latents) {
					t.Fatalf("got %+v, %v and %d latents", r, err, len(latents))
				}
				slices.SortFunc(latents, slices.Compare)
				return latents
			}
			out := t.TempDir()
			want := run(out, "")
			videos, err := filepath.Glob(filepath.Join(out, "videos", "*", "*.mp4"))
			if more, _ := filepath.Glob(filepath.Join(out, "videos", "*.mp4")); err != nil || len(videos)+len(more) != 2 || len(want) != 2 {
				t.Fatalf("got %d latents, videos %q and %q, %v", len(want), videos, more, err)
			}
			for _, v := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
				if v.FPS != c.fps || *v.GuidanceScale != 7.5 || v.Height != 32 || v.Width != 48 || v.NumFrames != 5 {
					t.Errorf("the published default values are not used: %+v", v)
				}
			}
			for _, e := range jobtest.ReadRows[schemas.EmbeddingRow](t, out, "embeddings") {
				if n := e.NegativeEmbeddingShape; len(n) != 2 || n[0] < 30 || n[1] != 10 {
					t.Errorf("the published negative prompt has shape %v", n)
				}
			}
			short := t.TempDir()
			if got := run(short, "", "defaults.max_sequence_length=16"); slices.Equal(got[0], want[0]) {
				t.Error("a text cut to 16 tokens gives the latents of the whole text")
			}
			for _, e := range jobtest.ReadRows[schemas.EmbeddingRow](t, short, "embeddings") {
				if n := e.NegativeEmbeddingShape; len(n) != 2 || n[0] != 16 {
					t.Errorf("cut to 16 tokens, the negative prompt has shape %v", n)
				}
			}
			if again := run(out, ""); len(again) != 0 {
				t.Errorf("a rerun computed %d rows", len(again))
			}
			if same := run(out, "", "stages.encode_text.prompt_template="+c.usual); len(same) != 0 {
				t.Errorf("a job that names the template of the version computed %d rows, want 0", len(same))
			}
			if other := run(out, "", "stages.encode_text.prompt_template="+c.other); len(other) != 2 ||
				slices.EqualFunc(other, want, slices.Equal) {
				t.Error("another template gives the same latents")
			}
			for _, set := range []string{"sequence_parallel=3", "tp_size=2"} {
				if many := run(t.TempDir(), "resources: {workers: 3}\n", "stages.denoise."+set); !slices.EqualFunc(many,
					want, slices.Equal) {
					t.Errorf("%s: the latents differ", set)
				}
			}
		})
	}
}

// TestPlanNeedsNoList: if the job lists no stages, they come from the model. A job on precomputed latents starts at the autoencoder. The
// error for an unsupported class of Open-Sora-Plan names the class.
func TestPlanNeedsNoList(t *testing.T) {
	dir, out := planDir(t, planNet13, planVAE13), t.TempDir()
	text := func(input, out string) string {
		return fmt.Sprintf("version: 1\nmodel: %q\ninput: {%s}\noutput: {path: %q, write: [video, latents]}\n"+
			"defaults: {num_inference_steps: 2}\n", dir, input, out)
	}
	prompts := fmt.Sprintf("prompts: %q", jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball,1\n"))
	if r, err := runYAML(t, text(prompts, out), nil); err != nil || r.Done != 1 || r.Totals.Failed != 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	video := func(out string) []byte {
		t.Helper()
		var all []string
		for _, pattern := range []string{"*.mp4", "*/*.mp4"} {
			some, err := filepath.Glob(filepath.Join(out, "videos", pattern))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, some...)
		}
		if len(all) != 1 {
			t.Fatalf("got videos %q", all)
		}
		plain, err := marks.Strip(nntest.Read(t, all[0]), ".mp4") // a job on latents puts no marks on files
		jobtest.Must(t, err)
		return plain
	}
	again := filepath.Join(t.TempDir(), "again")
	latents := fmt.Sprintf("latents: %q", filepath.Join(out, "tables", "latents", "*.parquet"))
	if r, err := runYAML(t, text(latents, again), []string{"output.write=[video]"}); err != nil || r.Done != 1 {
		t.Fatalf("the job on latents: got %+v, %v", r, err)
	}
	if !bytes.Equal(video(out), video(again)) {
		t.Error("the job on latents makes another video")
	}
	jobtest.WriteFile(t, dir, "transformer/config.json", []byte(strings.Replace(planNet13, "OpenSoraT2V_v1_3", "OpenSoraInpaint_v1_3", 1)))
	_, err := runYAML(t, text(prompts, out)+"stages: [encode_text, denoise, decode_vae, encode_video]\n", nil)
	nntest.WantError(t, "inpainting", err, "OpenSoraInpaint_v1_3 is inpainting and image to video of version 1.3, which is not supported")
}
