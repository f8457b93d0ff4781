package wan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// goldenCase is one forward, or with Steps one sampling, of testdata/golden/wan-transformer.json.
type goldenCase struct {
	Config    json.RawMessage
	Tensors   int
	Shape     []int // (B, c, T, H, W)
	Timesteps []float32
	Lens      []int // of the texts
	Negative  []int // of the negative ones
	Steps     int
	Guidance  float32
	Out       []float32

	dtype kernels.DType
}

func goldens(t testing.TB) map[string]goldenCase {
	t.Helper()
	out := map[string]goldenCase{}
	for name, data := range nntest.Golden(t, "../../testdata/golden/wan-transformer.json") {
		var c goldenCase
		nntest.Decode(t, data, &c)
		out[name] = c
	}
	return out
}

// TestGolden runs the network against diffusers', with texts of 1, 511, 512 and other lengths.
func TestGolden(t *testing.T) {
	cases := goldens(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			got := c.run(t, cpu.New(2))
			diff, largest := nntest.MaxDiff(got, c.Out)
			t.Logf("largest difference %.2g of %.3g", diff, largest)
			if diff > 1e-5*largest {
				t.Errorf("differs by %g from diffusers", diff)
			}
			if late := c.run(t, kerneltest.Deferred(cpu.New(1))); !slices.Equal(late, got) {
				t.Error("other bytes where work is deferred")
			}
		})
	}
}

func (c *goldenCase) config(t testing.TB) Config {
	t.Helper()
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// options are those of the stage.
func (c *goldenCase) options(t testing.TB) stages.Options {
	if c.dtype == kernels.F32 {
		return nil
	}
	return optionsOf(t, "dtype: "+strings.ToLower(c.dtype.String()))
}

// run returns the result of the network, or of the sampler with it, for the case.
func (c *goldenCase) run(t testing.TB, be kernels.Backend) []float32 {
	t.Helper()
	defer be.Scope()()
	d, err := open(c.config(t), published{}, c.options(t))
	if err != nil {
		t.Fatal(err)
	}
	shapes := nntest.Shapes(t, d.Config, Load)
	if len(shapes) != c.Tensors {
		t.Errorf("%d tensors, want %d", len(shapes), c.Tensors)
	}
	m, err := Load(d.Config, weights.NewWeights(be, nntest.File(t, shapes)))
	if err != nil {
		t.Fatal(err)
	}
	return c.runOn(t, be, m)
}

// TestGoldenBF16: in bf16 the network is at most 1.2 times as far from diffusers in fp32 as PyTorch's bf16 is.
func TestGoldenBF16(t *testing.T) {
	cases := goldens(t)
	for name, data := range nntest.Golden(t, "../../testdata/golden/wan-bf16.json") {
		t.Run(name, func(t *testing.T) {
			var torch struct{ RMS float64 }
			nntest.Decode(t, data, &torch)
			c := cases[name]
			if c.dtype = kernels.BF16; len(c.Out) < 64 {
				t.Skipf("%d numbers are too few to measure a distance", len(c.Out))
			}
			got := c.run(t, cpu.New(2))
			rms := nntest.RelativeRMS(got, c.Out)
			t.Logf("relative RMS %.2g, PyTorch's %.2g", rms, torch.RMS)
			if !(rms > 1e-4 && rms <= 1.2*torch.RMS) {
				t.Errorf("relative RMS %g, PyTorch's bf16 has %g", rms, torch.RMS)
			}
			if late := c.run(t, kerneltest.Deferred(cpu.New(1))); !slices.Equal(late, got) {
				t.Error("other bytes where work is deferred, or by one thread")
			}
		})
	}
}

// runOn is run for a loaded model.
func (c *goldenCase) runOn(t testing.TB, be kernels.Backend, m *Model) []float32 {
	t.Helper()
	defer be.Scope()()
	d, err := open(c.config(t), published{}, c.options(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := &dit.Rows{Size: dit.LatentSize{T: c.Shape[2], H: c.Shape[3], W: c.Shape[4]}}
	for i, n := range c.Lens {
		e := &stages.Element{Text: &stages.Text{Embedding: textOf(d, "text", i, n)}}
		if c.Steps > 0 {
			e.Text.Negative = textOf(d, "negative", i, c.Negative[i])
		}
		rows.Rows = append(rows.Rows, dit.BatchRow{Element: e})
	}
	if c.Steps > 0 {
		for _, r := range rows.Rows[:len(c.Lens)] {
			rows.Rows = append(rows.Rows, dit.BatchRow{Element: r.Element, Branch: 1})
		}
	}
	description := d.Describe()
	evaluate, err := description.Evaluator(be, m, rows)
	if err != nil {
		t.Fatal(err)
	}
	x := nntest.Hash("input.x", 1.7, c.Shape...)
	if c.Steps == 0 {
		x, err = evaluate(t.Context(), x, c.Timesteps, nil)
	} else {
		var s sampler.Sampler
		if s, err = d.recipe.New(c.Steps, sampler.VideoSize{}); err == nil {
			b := sampler.Batch{N: c.Shape[0], Channels: c.Shape[1], Size: len(x) / c.Shape[0] / c.Shape[1],
				Guidance: slices.Repeat([]float32{c.Guidance}, c.Shape[0])}
			err = s.Sample(t.Context(), b, x, evaluate, nil, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(x)
}

func textOf(d *denoiser, name string, i, n int) *stages.Array {
	return &stages.Array{Shape: []int{n, d.TextWidth}, Data: nntest.Hash(fmt.Sprint(name, ".", i), 1, n, d.TextWidth)}
}

// TestPublished: the published sizes have as many tensors and numbers as the published files, and are recognised by them.
func TestPublished(t *testing.T) {
	for _, c := range []struct {
		heads, ffn, layers, channels int
		tensors, numbers             int
	}{{12, 8960, 30, 16, 825, 1_418_996_800}, {40, 13824, 40, 16, 1095, 14_288_491_584},
		{24, 14336, 30, 48, 825, 4_999_787_712}} {
		cfg := DefaultConfig()
		cfg.Heads, cfg.FFN, cfg.Layers, cfg.InChannels, cfg.OutChannels = c.heads, c.ffn, c.layers, c.channels, c.channels
		shapes, numbers := nntest.Shapes(t, cfg, Load), 0
		for _, shape := range shapes {
			n := 1
			for _, d := range shape {
				n *= d
			}
			numbers += n
		}
		if len(shapes) != c.tensors || numbers != c.numbers {
			t.Errorf("%d heads: %d tensors of %d numbers", c.heads, len(shapes), numbers)
		}
		config, err := family().Guess(shapes)
		if err != nil {
			t.Fatal(err)
		}
		if guessed, err := ParseConfig(config); err != nil || guessed != cfg {
			t.Errorf("recognised as %+v, %v", guessed, err)
		}
	}
	if config, err := family().Guess(weights.Shapes{"blocks.0.attn.qkv.weight": {3, 1}}); config != nil || err != nil {
		t.Errorf("another model is %s, %v", config, err)
	}
}

// TestRefuses: unsupported settings are refused by name.
func TestRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`{"_class_name":"WanTransformer3DModel"}`:              "",
		`{"_class_name":"WanModel","dim":1536,"num_heads":12}`: "",
		`{"_class_name":"WanModel","dim":1536}`:                "dim is 1536 and num_heads 40",
		`{"_class_name":"WanModel","model_type":"i2v"}`:        "model_type is \"i2v\"",
		`{"_class_name":"WanModel","text_len":226}`:            "text_len is 226",
		`{"image_dim":1280,"added_kv_proj_dim":5120}`:          "take the image beside the latents",
		`{"in_channels":36}`:                                   "",
		`{"in_channels":40}`:                                   "in_channels is 40 and out_channels is 16",
		`{"in_channels":48,"out_channels":48}`:                 "",
		`{"freq_dim":128}`:                                     "",
		`{"freq_dim":127}`:                                     "freq_dim is 127: give an even number",
		`{"qk_norm":null}`:                                     "",
		`{"qk_norm":"rms_norm"}`:                               "qk_norm",
		`{"cross_attn_norm":false}`:                            "cross_attn_norm",
		`{"patch_size":[2,2,2]}`:                               "patch_size",
		`{"eps":1e-5}`:                                         "eps",
		`{"num_layers":0}`:                                     "num_layers is 0",
		`{"attention_head_dim":5}`:                             "attention_head_dim is 5",
		`{"num_attention_heads":9000}`:                         "more than 65536",
		`{"num_layers":"2"}`:                                   "parse config.json of Wan",
	} {
		_, err := ParseConfig([]byte(config))
		nntest.WantError(t, config, err, want)
	}
	for text, want := range map[string]string{
		"dtype: bf16": "", "dtype: fp16": `dtype is "fp16": give fp32 or bf16`, "dtype: fp32": "", "flow_shift: -2": "flow_shift is -2", "flow_shift: 0": "flow_shift is 0: give a number above 0, or leave it out",
		"boundary_ratio: 0": "boundary_ratio is 0",
		"flow_solver: dpm":  "flow_solver", "flow_sigmas: wan": "", "cfg_channel: 3": "cfg_channel is 3",
	} {
		_, err := open(DefaultConfig(), published{}, optionsOf(t, text))
		nntest.WantError(t, text, err, want)
	}
	d, err := open(DefaultConfig(), published{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(frames, height, width int, guidance float64, loop int) error {
		r := rowOf(frames, height, width, guidance)
		r.Loop = loop
		return d.Check(&r)
	}
	nntest.WantError(t, "81 frames", row(81, 480, 832, 5, 1), "")
	nntest.WantError(t, "80 frames", row(80, 480, 832, 5, 1), "num_frames is 80")
	nntest.WantError(t, "0 frames", row(-3, 480, 832, 5, 1), "num_frames is -3")
	nntest.WantError(t, "height", row(81, 488, 832, 5, 1), "height is 488")
	nntest.WantError(t, "width", row(81, 480, 0, 5, 1), "width is 0")
	nntest.WantError(t, "positions", row(81, 480, 16400, 1, 1), "the model has positions for 1024")
	nntest.WantError(t, "guidance", row(81, 480, 832, 0.5, 1), "")
	long := rowOf(81, 480, 832, 5)
	long.MaxSequenceLength = 513
	nntest.WantError(t, "a long text", d.Check(&long), "max_sequence_length is 513: Wan takes texts of 1 to 512 tokens")
	nntest.WantError(t, "loop", row(81, 480, 832, 5, 2), "loop is given")
	if !strings.Contains(Denoiser().Options, "flow_shift") {
		t.Error("the options are not named")
	}
}

// TestSparseAttention: a model with the gates of FastVideo's sparse attention is refused, and the error says how to use it.
// With vsa: dense it gives the results of the model without the gates.
func TestSparseAttention(t *testing.T) {
	c, be := goldens(t)["b_2"], cpu.New(2)
	load := func(options string, gates ...string) (*Model, error) {
		d, err := open(c.config(t), published{}, optionsOf(t, options))
		if err != nil {
			return nil, err
		}
		shapes := nntest.Shapes(t, d.Config, Load)
		for _, name := range gates {
			shapes[name+".weight"], shapes[name+".bias"] = []int{84, 84}, []int{84}
		}
		return Load(d.Config, weights.NewWeights(be, nntest.File(t, shapes)))
	}
	gates := []string{"blocks.0.to_gate_compress", "blocks.1.attn1.to_gate_compress"}
	_, err := load("{}", gates...)
	nntest.WantError(t, "gates", err, "`vsa: dense` of denoise leaves them out")
	nntest.WantError(t, "gates", err, `unexpected  "blocks.0.to_gate_compress.weight" [84 84]`)
	_, err = load("vsa: sparse")
	nntest.WantError(t, "sparse", err, `vsa is "sparse": give dense`)
	_, err = load("vsa: dense", "blocks.0.to_gate")
	nntest.WantError(t, "another tensor", err, `unexpected  "blocks.0.to_gate.weight"`)
	plain, err := load("{}")
	if err != nil {
		t.Fatal(err)
	}
	dense, err := load("vsa: dense", gates...)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.runOn(t, be, plain), c.runOn(t, be, dense)) {
		t.Error("the gates change the result")
	}
}
