package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/vae"
	"latentbeam/stages/wan"
	tt "latentbeam/stages/weights/torchpickle/torchtest"
)

// TestInspectModel: inspect prints the pipeline and the scheduler of a model directory before its parts.
func TestInspectModel(t *testing.T) {
	s := newShell(t)
	s.layOut()
	if err := os.Mkdir(filepath.Join(s.dir, "st/scheduler"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("st/model_index.json", `{"_class_name": "WanPipeline"}`)
	const scheduler = `{"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true, "prediction_type": "flow_prediction", ` +
		`"flow_shift": 5.0`
	s.write("st/scheduler/scheduler_config.json", scheduler+"}")
	s.says(s.run(0, "inspect", "st"), "pipeline", "WanPipeline (text to video)", "model: st", "unipc, flow_shift 5", "vae")
	s.write("st/scheduler/scheduler_config.json", scheduler+`, "solver_order": 3}`)
	s.says(s.run(2, "inspect", "st"), "solver_order of UniPCMultistepScheduler is 3, only 2 is supported")
	s.write("st/model_index.json", `{"_class_name": "FluxPipeline"}`)
	s.says(s.run(0, "inspect", "st"), "FluxPipeline, which is not known", "vae")
	s.write("st/model_index.json", `{`)
	s.says(s.run(2, "inspect", "st"), "model_index.json", "unexpected end of JSON")
}

// TestConvertOriginalWan: inspect refuses a model in the layout of Wan's own code and names convert. Converted, it is complete.
func TestConvertOriginalWan(t *testing.T) {
	s := newShell(t)
	for _, dir := range []string{"wan", "st"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const config = `{"_class_name": "WanModel", "dim": 24, "num_heads": 2, "ffn_dim": 32, "num_layers": 2, "in_dim": 16,
		"out_dim": 16, "freq_dim": 256, "text_len": 512, "eps": 1e-6, "model_type": "t2v"}`
	cfg, err := wan.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]string
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/wan-names.json")["transformer"], &names)
	shapes, theirs := nntest.Shapes(t, cfg, wan.Load), map[string][]int{}
	for from, to := range names {
		theirs[from] = shapes[to]
	}
	s.write("wan/config.json", config)
	s.write("wan/diffusion_pytorch_model.safetensors", string(nntest.FileBytes(t, theirs)))
	s.says(s.run(0, "inspect", "wan"), "layout    that of the model's original code", "all 69 tensors of the model are there")
	s.says(s.run(0, "convert", "wan", "st"), "named  the tensors as here", "Wan text to video: 2 layers")
	s.says(s.run(0, "inspect", "st"), "all 69 tensors of the model are there")
}

// TestConvertOpenSoraPlanVAE: inspect refuses a checkpoint.ckpt of Open-Sora-Plan's code and names convert. Converted, it is
// complete: convert uses the averaged weights, removes their prefix and ignores the Haar filters.
func TestConvertOpenSoraPlanVAE(t *testing.T) {
	s := newShell(t)
	var c struct{ Config json.RawMessage }
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/osplan-vae.json")["wf_1frames"], &c)
	cfg, err := vae.ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []tt.Tensor
	var storages [][]byte
	add := func(name string, shape []int) {
		values := nntest.Tensor(nntest.Weight(name, shape...), shape...)
		tensors = append(tensors, tt.Tensor{Name: "module." + name, Storage: "FloatStorage", Shape: shape, Data: values.Data})
		storages = append(storages, values.Data)
	}
	shapes := nntest.Shapes(t, cfg, vae.Load)
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		add(name, shapes[name])
	}
	add("encoder.wavelet_tranform_l1.aa", []int{1, 1, 2, 2})
	add("decoder.inverse_wavelet_tranform_l2.gh_v", []int{1, 1, 2, 2, 2})
	for _, dir := range []string{"plan", "st"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ckpt := tt.Dict(tt.Text("epoch"), tt.Int(7), tt.Text("state_dict"), tt.Dict(tt.Text("gen_model"), tt.StateDict(tensors[:2]...)),
		tt.Text("ema_state_dict"), tt.StateDict(tensors...))
	s.write("plan/config.json", string(c.Config))
	s.write("plan/checkpoint.ckpt", string(tt.Zip(t, tt.Pickle(ckpt), storages...)))
	const name = "autoencoder of Open-Sora-Plan 1.3 (WF-VAE, 4 latent channels)"
	s.says(s.run(0, "inspect", "plan"), "PyTorch pickle", `"ema_state_dict" of what it holds`, "latentbeam convert", name)
	s.says(s.run(0, "convert", "plan", "st"), `took   "ema_state_dict"`, name)
	s.says(s.run(0, "inspect", "st"), fmt.Sprintf("all %d tensors of the model are there", len(shapes)))
}
