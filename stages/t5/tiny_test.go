package t5

import (
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// TestTiny runs the encoder of the built-in model against transformers, from its files.
func TestTiny(t *testing.T) {
	const dir = "../../testdata/tiny/text_encoder/"
	cfg, err := ParseConfig(nntest.Read(t, dir+"config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		IDs []int32   `json:"ids"`
		Out []float32 `json:"out"`
	}
	nntest.Decode(t, nntest.Golden(t, golden+"tiny.json")["t5"], &c)
	be := cpu.New(2)
	e, err := Load(cfg, weights.NewWeights(be, nntest.Open(t, dir+"model.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	diff, largest := nntest.MaxDiff(encode(t, be, e, [][]int32{c.IDs})[0], c.Out)
	t.Logf("largest difference %.2g of %.3g", diff, largest)
	if diff > 1e-4*max(1, largest) {
		t.Errorf("differs by %g from transformers", diff)
	}
}
