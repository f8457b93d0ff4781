package osplan

import (
	"encoding/json"
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// TestPublished: the published sizes have as many tensors and numbers as the project's own classes. 1.3 is recognised by its
// tensors. 1.2 is also recognised, but the tensors do not contain its scales.
func TestPublished(t *testing.T) {
	for _, c := range []struct {
		sparse           bool
		tensors, numbers int
	}{{false, 687, 2_771_907_856}, {true, 687, 2_771_981_600}} {
		cfg := DefaultConfig(c.sparse)
		shapes, numbers := nntest.Shapes(t, cfg, Load), 0
		for _, shape := range shapes {
			n := 1
			for _, d := range shape {
				n *= d
			}
			numbers += n
		}
		if len(shapes) != c.tensors || numbers != c.numbers {
			t.Errorf("sparse %v: %d tensors of %d numbers", c.sparse, len(shapes), numbers)
		}
		config, err := family().Guess(shapes)
		if !c.sparse {
			nntest.WantError(t, "1.2 without its config.json", err, "this is Open-Sora-Plan 1.2, and its tensors do not contain the scale of its positions")
			continue
		}
		guessed, err := ParseConfig(config)
		if err != nil || fmt.Sprint(guessed.skip(2), guessed.Hidden(), guessed.Layers,
			guessed.scales()) != fmt.Sprint(cfg.skip(2), 2304, 32, [3]float64{1, 1, 1}) {
			t.Errorf("recognised as %+v, %v", guessed, err)
		}
	}
	if config, err := family().Guess(weights.Shapes{"blocks.0.attn.qkv.weight": {3, 1}}); config != nil || err != nil {
		t.Errorf("another model is %s, %v", config, err)
	}
}

// TestSparseBlocks: the first two blocks and all from the 30th on are dense; the blocks between them alternate between single
// tokens and groups.
func TestSparseBlocks(t *testing.T) {
	c := DefaultConfig(true)
	got := fmt.Sprint(c.skip(0), c.skip(1), c.skip(2), c.skip(3), c.skip(28), c.skip(29), c.skip(30), c.skip(31))
	if want := "{0 0} {0 0} {4 1} {4 4} {4 1} {4 4} {0 0} {0 0}"; got != want {
		t.Errorf("blocks 0 to 3 and 28 to 31 are %s, want %s", got, want)
	}
	d := &denoiser{Config: c}
	if got := d.scored(); got != 11.0/32 {
		t.Errorf("%g of the pairs are scored, want 11/32", got)
	}
}

// TestRefuses: unsupported settings are refused by name.
func TestRefuses(t *testing.T) {
	old := func(change string) string {
		var fields, changes map[string]any
		for text, into := range map[string]*map[string]any{`{"_class_name": "OpenSoraT2V", "num_attention_heads": 24, "attention_head_dim": 96,
			"in_channels": 4, "num_layers": 32, "cross_attention_dim": 2304, "caption_channels": 4096, "attention_bias": true, "patch_size": 2,
			"patch_size_t": 1, "activation_fn": "gelu-approximate", "norm_type": "ada_norm_single", "norm_elementwise_affine": false,
			"norm_eps": 1e-6, "use_rope": true, "sample_size": [60, 80], "sample_size_t": 24}`: &fields, change: &changes} {
			nntest.Decode(t, json.RawMessage(text), into)
		}
		for k, v := range changes {
			fields[k] = v
		}
		out, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for config, want := range map[string]string{
		old(`{}`): "", old(`{"sample_size": 60, "downsampler": null, "attention_mode": "xformers", "out_channels": null}`): "",
		`{"_class_name": "OpenSoraInpaint"}`:                                        "OpenSoraInpaint is inpainting and image to video of version 1.2, which is not supported",
		`{"_class_name": "LatteT2V"}`:                                               "LatteT2V is versions 1.0 and 1.1",
		`{"_class_name": "OpenSoraT2V_v1_5"}`:                                       "SparseUMMDiT",
		old(`{"downsampler": "k333_s222"}`):                                         `downsampler is "k333_s222", only null`,
		old(`{"use_rope": false}`):                                                  "use_rope is false, only true",
		old(`{"out_channels": 8}`):                                                  "out_channels is 8, only as many as in_channels",
		old(`{"norm_type": "layer_norm"}`):                                          "norm_type is layer_norm",
		old(`{"patch_size_t": 2}`):                                                  "patch_size_t is 2, only 1",
		old(`{"attention_head_dim": 88}`):                                           "attention_head_dim is 88, only a multiple of 6",
		old(`{"cross_attention_dim": 1920}`):                                        "cross_attention_dim is 1920, only 2304",
		old(`{"activation_fn": "geglu"}`):                                           "activation_fn is geglu",
		old(`{"sample_size_t": null}`):                                              "interpolation_scale_t is 0",
		old(`{"num_layers": 0}`):                                                    "num_layers is 0: give 1 to 1024",
		old(`{"num_layers": "2"}`):                                                  "parse config.json of Open-Sora-Plan",
		old(`{"_class_name": "OpenSoraT2V_v1_3", "sparse1d": true, "sparse_n": 2}`): "sparse_n is 2, only 1 and 4",
	} {
		_, err := ParseConfig([]byte(config))
		nntest.WantError(t, config, err, want)
	}
	for text, want := range map[string]string{
		"dtype: bf16": "", "dtype: fp16": `dtype is "fp16": give fp32 or bf16`, "sample_method: ddim": `sample_method is "ddim"`,
		"padded_box: [24, 60]": "padded_box is [24 60]: give latent frames, rows and columns", "padded_box: [24, 61, 80]": "padded_box is",
		"cfg_channel: 3": "cfg_channel is 3", "{sample_method: pndm, rescale_betas_zero_snr: true}": "rescale_betas_zero_snr is true: pndm",
	} {
		_, err := open(DefaultConfig(false), published{}, optionsOf(t, text))
		nntest.WantError(t, text, err, want)
	}
	d, err := open(DefaultConfig(false), published{}, optionsOf(t, "padded_box: [8, 60, 80]"))
	if err != nil {
		t.Fatal(err)
	}
	for want, row := range map[string]schemas.PromptRow{
		"": {NumFrames: 29, Height: 480, Width: 640}, "num_frames is 28": {NumFrames: 28, Height: 480, Width: 640},
		"height is 488": {NumFrames: 29, Height: 488, Width: 640}, "width is 0": {NumFrames: 29, Height: 480},
		"which do not fit padded_box [8, 60, 80]": {NumFrames: 33, Height: 480, Width: 640},
		"loop is given": {NumFrames: 29, Height: 480, Width: 640, Loop: 2},
	} {
		nntest.WantError(t, fmt.Sprint(row.NumFrames, row.Height), d.Check(&row), want)
	}
}

// TestSamplerOptions: the options of the job override the model's scheduler_config.json, which overrides the scripts of the
// version. Only differences from the scripts are in the key.
func TestSamplerOptions(t *testing.T) {
	const euler, zero = `{"_class_name": "EulerAncestralDiscreteScheduler"`,
		`, "prediction_type": "v_prediction", "rescale_betas_zero_snr": true, "timestep_spacing": "trailing"}`
	for _, c := range []struct {
		sparse             bool
		scheduler, options string
		want               sampler.VPConfig
		key                string
	}{
		{false, "", "", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "epsilon", Spacing: "linspace"}, ""},
		{true, "", "", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "v_prediction", Spacing: "trailing", ZeroSNR: true}, ""},
		{true, euler + zero, "", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "v_prediction", Spacing: "trailing", ZeroSNR: true}, ""},
		{false, euler + zero, "", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "v_prediction", Spacing: "trailing", ZeroSNR: true},
			`,"prediction_type":"v_prediction","timestep_spacing":"trailing","rescale_betas_zero_snr":true`},
		{false, "", "sample_method: pndm", sampler.VPConfig{Solver: "pndm", Prediction: "epsilon", Spacing: "leading"},
			`,"sample_method":"pndm","timestep_spacing":"leading"`},
		{true, "", "rescale_betas_zero_snr: false", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "v_prediction", Spacing: "leading"},
			`,"timestep_spacing":"leading","rescale_betas_zero_snr":false`},
		{true, "", "sample_method: pndm", sampler.VPConfig{Solver: "pndm", Prediction: "v_prediction", Spacing: "leading"},
			`,"sample_method":"pndm","timestep_spacing":"leading","rescale_betas_zero_snr":false`},
		{false, "", "sampler: {name: pndm}", sampler.VPConfig{Solver: "pndm", Prediction: "epsilon", Spacing: "leading"},
			`,"sample_method":"pndm","timestep_spacing":"leading"`},
		{true, "", "sampler: {rescale_betas_zero_snr: false}", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "v_prediction", Spacing: "leading"},
			`,"timestep_spacing":"leading","rescale_betas_zero_snr":false`},
		{true, euler + `}`, "timestep_spacing: trailing", sampler.VPConfig{Solver: "euler_ancestral", Prediction: "epsilon", Spacing: "trailing"},
			`,"prediction_type":"epsilon","rescale_betas_zero_snr":false`},
	} {
		var p published
		if c.scheduler != "" {
			got, err := sampler.ParseScheduler([]byte(c.scheduler), sampler.VariancePreserving)
			if err != nil {
				t.Fatal(err)
			}
			vp := got.VP()
			p.solver = &vp
		}
		var decoded any
		d, err := open(DefaultConfig(c.sparse), p, func(into any) error { decoded = into; return optionsOf(t, c.options)(into) })
		if err != nil {
			t.Fatal(err)
		}
		want, err := sampler.VP(c.want)
		if err != nil || fmt.Sprint(d.recipe) != fmt.Sprint(want) {
			t.Errorf("%+v: %+v, want %+v, %v", c, d.recipe, want, err)
		}
		if key, err := json.Marshal(decoded); err != nil || string(key) != `{"cfg_channel":0,"dtype":"fp32"`+c.key+`}` {
			t.Errorf("%+v: the key has %s, %v", c, key, err)
		}
	}
}

// TestCost: the plan includes the cost of attention over all tokens, of sparse blocks, and of a box.
func TestCost(t *testing.T) {
	work := func(version, options string) float64 {
		t.Helper()
		s := stageOf(t, goldens(t)[version].Config, options)
		guidance := 5.0
		row := schemas.PromptRow{NumFrames: 9, Height: 48, Width: 64, NumInferenceSteps: 2, GuidanceScale: &guidance}
		cost, err := s.Capabilities().Cost(&row)
		if err != nil || !cost.Split.Shape.Full || cost.Work <= 0 || cost.Split.Costs.Local <= 0 {
			t.Fatalf("%+v, %v", cost, err)
		}
		return cost.Work
	}
	if plain, box := work("v13", ""), work("v13", "padded_box: [6, 12, 16]"); box < 2*plain {
		t.Errorf("a box of eight times the tokens costs %g in place of %g", box, plain)
	}
	if dense, sparse := work("v13_dense", ""), work("v13", ""); dense == sparse {
		t.Error("sparse blocks cost as much as dense ones")
	}
	d, err := open(DefaultConfig(false), published{}, optionsOf(t, "dtype: bf16"))
	if err != nil {
		t.Fatal(err)
	}
	for name, most := range map[dit.LatentSize]int64{{T: 8, H: 60, W: 80}: 20 << 30, {T: 24, H: 60, W: 80}: 40 << 30,
		{T: 24, H: 90, W: 160}: 70 << 30} {
		bytes, err := dit.SampleBytes(d, 2, name, textTokens)
		t.Logf("%v under guidance: %.2f GB of activations in bf16", name, float64(bytes)/1e9)
		if err != nil || bytes > most {
			t.Errorf("%v: %d bytes, %v", name, bytes, err)
		}
	}
	if d.DType != kernels.BF16 || d.Describe().LatentScale != 0.18215 {
		t.Errorf("%+v", d.Describe())
	}
}
