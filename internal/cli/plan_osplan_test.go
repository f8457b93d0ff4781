package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/osplan"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/vae/osplan/causal"
	"latentbeam/stages/weights/safetensors"
)

// plansEnv names a directory on a file system with sparse files. Without it TestPlansOfOpenSoraPlan is skipped, for every
// plan reads 36 GB of zeros.
const plansEnv = "LATENTBEAM_OSPLAN_PLANS"

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
)

// hollow writes a component of these tensors, of which no number takes room on the disk.
func hollow(t *testing.T, dir, config, name string, shapes map[string][]int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir, 0o755))
	must(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644))
	f, err := os.Create(filepath.Join(dir, name))
	must(err)
	defer f.Close()
	var tensors []safetensors.TensorInfo
	for name, shape := range shapes {
		tensors = append(tensors, safetensors.TensorInfo{Name: name, DType: "F32", Shape: shape})
	}
	zeros := make([]byte, 1<<20)
	must(safetensors.Stream(holes{f, zeros}, tensors, nil, func(w io.Writer, i safetensors.TensorInfo) error {
		n, err := i.Bytes()
		for ; n > 0 && err == nil; n -= int64(len(zeros)) {
			_, err = w.Write(zeros[:min(n, int64(len(zeros)))])
		}
		return err
	}))
	at, err := f.Seek(0, io.SeekCurrent)
	must(err)
	must(f.Truncate(at))
}

// holes writes its zeros as holes.
type holes struct {
	f     *os.File
	zeros []byte
}

func (h holes) Write(p []byte) (int, error) {
	if len(p) == 0 || &p[0] != &h.zeros[0] {
		return h.f.Write(p)
	}
	_, err := h.f.Seek(int64(len(p)), io.SeekCurrent)
	return len(p), err
}

// hollowPlan is a directory of Open-Sora-Plan whose weights are all zeros.
func hollowPlan(t *testing.T, dir, net, autoencoder string) {
	t.Helper()
	text, err := t5.ParseConfig([]byte(publishedText))
	if err != nil {
		t.Fatal(err)
	}
	n, err := osplan.ParseConfig([]byte(net))
	if err != nil {
		t.Fatal(err)
	}
	v, err := vae.ParseConfig([]byte(autoencoder))
	if err != nil {
		t.Fatal(err)
	}
	hollow(t, filepath.Join(dir, "text_encoder"), publishedText, "model.safetensors", nntest.Shapes(t, text, t5.Load))
	hollow(t, filepath.Join(dir, "transformer"), net, "diffusion_pytorch_model.safetensors", nntest.Shapes(t, n, osplan.Load))
	hollow(t, filepath.Join(dir, "vae"), autoencoder, "diffusion_pytorch_model.safetensors", nntest.Shapes(t, v, vae.Load))
	spiece := nntest.Read(t, "../../testdata/tiny/text_encoder/spiece.model")
	if err := os.WriteFile(filepath.Join(dir, "text_encoder", "spiece.model"), spiece, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPlansOfOpenSoraPlan prints the plans of the presets for 1, 4 and 8 cards of 80 GB.
func TestPlansOfOpenSoraPlan(t *testing.T) {
	dir := os.Getenv(plansEnv)
	if dir == "" {
		t.Skip("set " + plansEnv + " to a directory")
	}
	c := causalPublished(t)
	for version, parts := range map[string][2]string{"1.2": {publishedNet12, c}, "1.3": {publishedNet13, publishedVAE13}} {
		hollowPlan(t, filepath.Join(dir, "osplan-"+version), parts[0], parts[1])
	}
	s := newShell(t, "prompts.csv", "prompt,seed\na sailing boat at sunset,1\n")
	for _, preset := range []string{"osplan-v1.2-29x480p", "osplan-v1.2-93x480p", "osplan-v1.2-93x720p", "osplan-v1.3-93x640p"} {
		s.write("job.yaml", fmt.Sprintf("version: 1\nmodel: %q\npreset: %s\ninput: {prompts: prompts.csv}\noutput: {path: out}\n"+
			"stages: [{encode_text: {dtype: bf16}}, {denoise: {dtype: bf16}}, {decode_vae: {dtype: bf16}}, encode_video]\n",
			filepath.Join(dir, "osplan-"+preset[8:11]), preset))
		for _, cards := range []string{"1xH100-80GB", "4xH100-80GB", "8xH100-80GB"} {
			t.Logf("%s on %s\n%s", preset, cards, s.run(0, "plan", "job.yaml", "--devices", cards))
		}
	}
}

// causalPublished is the configuration of the autoencoder of 1.2.
func causalPublished(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(causal.NewPublished())
	if err != nil {
		t.Fatal(err)
	}
	return `{"_class_name": "CausalVAEModel", ` + string(data[1:])
}
