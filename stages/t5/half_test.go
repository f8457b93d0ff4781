package t5

import (
	"math"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights/safetensors"
)

// halfCase is the encoder of testdata/golden/t5-half.json in one type.
type halfCase struct {
	IDs             [][]int32   `json:"ids"`
	SDPA            [][]float32 `json:"sdpa"`
	Spread          float64     `json:"spread"`
	Rounding        float64     `json:"rounding"`
	Out             [][]float32 `json:"out"`
	EmbeddingFactor float32     `json:"embedding_factor"`
	OFactor         float32     `json:"o_factor"`
}

func readHalf(t *testing.T, name string, dt kernels.DType) (Config, halfCase) {
	t.Helper()
	cases := nntest.Golden(t, golden+"t5-half.json")
	cfg, err := ParseConfig(cases["config"])
	if err != nil {
		t.Fatal(err)
	}
	cfg.DType = dt
	var c halfCase
	nntest.Decode(t, cases[name], &c)
	return cfg, c
}

// TestHalfMatchesTransformers compares bf16 and fp16 with transformers. Its own two implementations of the same arithmetic
// (eager and fused attention) differ by the spread that the golden file states.
func TestHalfMatchesTransformers(t *testing.T) {
	for name, dt := range map[string]kernels.DType{"bf16": kernels.BF16, "fp16": kernels.F16} {
		cfg, c := readHalf(t, name, dt)
		be := cpu.New(2)
		got := encode(t, be, hashed(t, cfg, be), c.IDs)
		cfg.DType = kernels.F32
		exact := encode(t, be, hashed(t, cfg, be), c.IDs)
		diff, rounding := relativeRMS(got, c.SDPA), relativeRMS(got, exact)
		t.Logf("%s: %.4f from transformers, whose two orders differ by %.4f; %.4f from fp32, transformers %.4f",
			name, diff, c.Spread, rounding, c.Rounding)
		if diff > c.Spread {
			t.Errorf("%s: %.4f from transformers, want at most its own spread of %.4f", name, diff, c.Spread)
		}
		if rounding < c.Rounding/3 {
			t.Errorf("%s: %.4f from fp32, so hardly anything is rounded", name, rounding)
		}
	}
}

// TestClamp: if a sum overflows fp16, the residual stream is clamped as in transformers.
func TestClamp(t *testing.T) {
	cfg, c := readHalf(t, "clamp", kernels.F16)
	be := cpu.New(2)
	factors := map[string]float32{"shared.weight": c.EmbeddingFactor,
		"encoder.block.0.layer.0.SelfAttention.o.weight": c.OFactor}
	e := nntest.Loaded(t, be, cfg, Load, scaled(t, nntest.Shapes(t, cfg, Load), factors))
	got := encode(t, be, e, c.IDs)
	diff := relativeRMS(got, c.Out)
	t.Logf("%.4f from transformers", diff)
	if !(diff < 0.01) {
		t.Errorf("%.4f from transformers", diff)
	}
	values := []float32{float32(math.Inf(1)), 65000, -3, float32(math.Inf(-1)), -65504}
	clampPrompt(values)
	for i, want := range []float32{clampedF16, clampedF16, -3, -clampedF16, -clampedF16} {
		if values[i] != want {
			t.Errorf("value %d is clamped to %g, want %g", i, values[i], want)
		}
	}
	if values = []float32{maxF16, 1}; true {
		if clampPrompt(values); values[0] != maxF16 {
			t.Errorf("a prompt without an overflow is clamped to %g", values[0])
		}
	}
}

// scaled is a file of hashed weights, some of them times a factor.
func scaled(t *testing.T, shapes map[string][]int, factors map[string]float32) *safetensors.File {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		values := nntest.Weight(name, shape...)
		if factor, ok := factors[name]; ok {
			for i := range values {
				values[i] *= factor
			}
		}
		tensors[name] = nntest.Tensor(values, shape...)
	}
	return nntest.Encode(t, tensors)
}

// relativeRMS is the root of the squared differences over the squares of want.
func relativeRMS(got, want [][]float32) float64 {
	var diff, size float64
	for i, row := range want {
		for j, w := range row {
			d := float64(got[i][j]) - float64(w)
			diff += d * d
			size += float64(w) * float64(w)
		}
	}
	return math.Sqrt(diff / size)
}
