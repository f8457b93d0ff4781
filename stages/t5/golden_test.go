package t5

import (
	"encoding/json"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

const golden = "../../testdata/golden/"

type goldenCase struct {
	Config json.RawMessage `json:"config"`
	IDs    [][]int32       `json:"ids"`
	Out    [][]float32     `json:"out"`
	BF16   float64         `json:"bf16_rounding"`
}

// readVariant reads the case of an encoder of another variant than T5.
func readVariant(t testing.TB, model string) (Config, goldenCase) {
	t.Helper()
	var c goldenCase
	nntest.Decode(t, nntest.Golden(t, golden+"umt5.json")[model], &c)
	cfg, err := ParseConfig(c.Config)
	if err != nil || cfg.ModelType != model {
		t.Fatalf("%+v, %v", cfg, err)
	}
	return cfg, c
}

func readGolden(t testing.TB) (Config, goldenCase) {
	t.Helper()
	var c goldenCase
	nntest.Decode(t, nntest.Golden(t, golden+"t5.json")["encoder"], &c)
	cfg, err := ParseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, c
}

// hashed loads an encoder whose weights are the hash of their names.
func hashed(t testing.TB, cfg Config, be kernels.Backend) *Encoder {
	t.Helper()
	return nntest.Loaded(t, be, cfg, Load, nntest.File(t, nntest.Shapes(t, cfg, Load)))
}

func encode(t testing.TB, be kernels.Backend, e *Encoder, ids [][]int32) [][]float32 {
	t.Helper()
	defer be.Scope()()
	rows, err := e.Encode(be, ids)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]float32, len(rows))
	for i, row := range rows {
		out[i] = nntest.Values(t, be, row)
	}
	return out
}

// TestEncodeMatchesTransformers compares with transformers' encoder on prompts of 1, 8, 20 and 130 tokens,
// which reach every bucket of relative distance.
func TestEncodeMatchesTransformers(t *testing.T) {
	cfg, c := readGolden(t)
	be := cpu.New(2)
	for i, row := range encode(t, be, hashed(t, cfg, be), c.IDs) {
		diff, largest := nntest.MaxDiff(row, c.Out[i])
		t.Logf("%d tokens: largest difference %.2g of %.3g", len(c.IDs[i]), diff, largest)
		if diff > 1e-4 {
			t.Errorf("%d tokens: differs by %g, want at most 1e-4", len(c.IDs[i]), diff)
		}
	}
}

// TestVariantsMatchTransformers compares UMT5, whose blocks have their own positions, and mT5 with transformers. fp32 is
// within 1e-5 of the largest value (transformers' own fp32 is within 2e-6 of fp64). bf16 is at most 1.2 times as far from
// fp32 as transformers' bf16.
func TestVariantsMatchTransformers(t *testing.T) {
	for _, model := range []string{modelUMT5, modelMT5} {
		cfg, c := readVariant(t, model)
		be := cpu.New(2)
		exact := encode(t, be, hashed(t, cfg, be), c.IDs)
		for i, row := range exact {
			diff, largest := nntest.MaxDiff(row, c.Out[i])
			t.Logf("%s, %d tokens: largest difference %.2g of %.3g", model, len(c.IDs[i]), diff, largest)
			if diff > 1e-5*largest {
				t.Errorf("%s, %d tokens: differs by %g of %g", model, len(c.IDs[i]), diff, largest)
			}
		}
		cfg.DType = kernels.BF16
		got := relativeRMS(encode(t, be, hashed(t, cfg, be), c.IDs), c.Out)
		t.Logf("%s in bf16: %.4f from fp32, transformers %.4f", model, got, c.BF16)
		if got > 1.2*c.BF16 || got < c.BF16/3 {
			t.Errorf("%s in bf16 is %.4f from fp32, transformers %.4f", model, got, c.BF16)
		}
	}
}

// TestEncodeRowsAreIndependent: a prompt has the same bits alone and in any batch, with any number of threads.
func TestEncodeRowsAreIndependent(t *testing.T) {
	cfg, c := readGolden(t)
	umt5, own := readVariant(t, modelUMT5)
	rowsAreIndependent(t, cfg, c)
	rowsAreIndependent(t, umt5, own)
}

func rowsAreIndependent(t *testing.T, cfg Config, c goldenCase) {
	t.Helper()
	one := cpu.New(1)
	e := hashed(t, cfg, one)
	together := encode(t, one, e, c.IDs)
	for i, ids := range c.IDs {
		if alone := encode(t, one, e, [][]int32{ids}); !slices.Equal(alone[0], together[i]) {
			t.Errorf("%s, %d tokens: other bits alone than in the batch", cfg.ModelType, len(ids))
		}
	}
	for _, threads := range []int{2, 8} {
		for i, row := range encode(t, cpu.New(threads), e, c.IDs) {
			if !slices.Equal(row, together[i]) {
				t.Errorf("%s, %d tokens: other bits on %d threads", cfg.ModelType, len(c.IDs[i]), threads)
			}
		}
	}
}

func TestBucketsMatchOpenSoraGolden(t *testing.T) {
	data, ok := nntest.OpenSora(t, golden+"open-sora.json")["t5_relative_buckets"]
	if !ok {
		t.Skip("the golden file has no case t5_relative_buckets")
	}
	var c struct {
		FirstDistance []int `json:"first_distance"`
	}
	nntest.Decode(t, data, &c)
	published := Config{NumBuckets: numBuckets, MaxDistance: maxDistance}
	for b, first := range c.FirstDistance {
		for _, check := range []struct {
			r    int
			want int
		}{{-first, b}, {first, b + 16}, {-first + 1, b - 1}, {first - 1, b + 15}} {
			if first == 0 && check.r != 0 || check.r == 0 && check.want >= 16 {
				continue // distance 0 counts as before
			}
			if got := published.bucket(check.r); int(got) != check.want {
				t.Errorf("bucket(%d) = %d, want %d", check.r, got, check.want)
			}
		}
	}
	if published.bucket(-100000) != 15 || published.bucket(100000) != 31 {
		t.Error("far keys are not in the last bucket")
	}
}

func TestEncodeRefusesBadIDs(t *testing.T) {
	cfg, _ := readGolden(t)
	be := cpu.New(1)
	e := hashed(t, cfg, be)
	for name, ids := range map[string][][]int32{
		"no token": {{1}, {}}, "negative": {{-1}}, "beyond the vocabulary": {{128}},
		"too long": {make([]int32, MaxTokens+1)},
	} {
		if _, err := e.Encode(be, ids); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if rows, err := e.Encode(be, nil); err != nil || len(rows) != 0 {
		t.Errorf("an empty batch gave %d rows, %v", len(rows), err)
	}
	if err := be.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := `"vocab_size":128,"d_model":32,"d_kv":8,"d_ff":64,"num_layers":2,"num_heads":4`
	for _, c := range []struct{ json, want string }{
		{`{` + good + `,"feed_forward_proj":"gated-gelu"}`, ""},
		{`{` + good + `}`, ""},
		{`{` + good + `,"feed_forward_proj":"gated-gelu","num_layers":0}`, "num_layers is 0"},
		{`{` + good + `,"feed_forward_proj":"gated-gelu","d_model":1000000000}`, "d_model is 1000000000"},
		{`{` + good + `,"feed_forward_proj":"gated-gelu","relative_attention_num_buckets":63}`, "relative_attention_num_buckets is 63"},
		{`{` + good + `,"feed_forward_proj":"gated-gelu","relative_attention_max_distance":8}`, "relative_attention_max_distance is 8"},
		{`{` + good + `,"feed_forward_proj":"gated-silu","relative_attention_num_buckets":64}`, ""},
		{`{` + good + `,"feed_forward_proj":"gated-gelu","layer_norm_epsilon":0}`, "layer_norm_epsilon"},
		{`{` + good + `,"feed_forward_proj":"gated-gelu","model_type":"t5"}`, ""},
		{`{` + good + `,"model_type":"umt5"}`, ""}, // whose configurations may leave gated-gelu out
		{`{` + good + `,"model_type":"mt5"}`, ""},
		{`{` + good + `,"model_type":"mt5","feed_forward_proj":"gated-elu"}`, `feed_forward_proj names the function "elu"; there are gelu, gelu_new`},
		{`{` + good + `,"model_type":"byt5"}`, `this is "byt5", not a T5 encoder`},
		{`{"model_type":"STDiT3","hidden_size":1152}`, `this is "STDiT3", not a T5 encoder`},
		{`{"_class_name":"AutoencoderKL"}`, `this is "AutoencoderKL"`},
		{`[]`, "parse t5 config.json"},
	} {
		_, err := ParseConfig([]byte(c.json))
		nntest.WantError(t, c.json, err, c.want)
	}
}

// TestXXLHasThePublishedTensors counts the tensors that the configs of DeepFloyd/t5-v1_1-xxl, google/mt5-xxl and Wan's
// encoder need.
func TestXXLHasThePublishedTensors(t *testing.T) {
	for _, c := range []struct {
		model                    string
		vocab, tensors, elements int
	}{
		// 219 and the alias of the embedding are the 220 entries of the index; 4.762e9 elements are 19.05 GB.
		{modelT5, 32128, 219, 4762_000_000}, {modelMT5, 250112, 219, 5655_000_000}, {modelUMT5, 256384, 242, 5680_910_336},
	} {
		shapes := nntest.Shapes(t, Config{ModelType: c.model, VocabSize: c.vocab, DModel: 4096, DKV: 64, DFF: 10240,
			NumLayers: 24, NumHeads: 64, NumBuckets: 32, MaxDistance: 128, Epsilon: 1e-6, FeedForward: "gated-gelu"}, Load)
		elements := 0
		for _, shape := range shapes {
			n := 1
			for _, d := range shape {
				n *= d
			}
			elements += n
		}
		if got := len(shapes); got != c.tensors || elements/1e6 != c.elements/1e6 {
			t.Errorf("%s: %d tensors of %d elements, want %d of %d", c.model, got, elements, c.tensors, c.elements)
		}
		if c.model == modelUMT5 && elements != c.elements {
			t.Errorf("UMT5-xxl has %d numbers, want %d", elements, c.elements)
		}
	}
}
