package stdit

import (
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// TestTiny runs the denoiser of the built-in model against PyTorch, from its files.
func TestTiny(t *testing.T) {
	const dir = "../../testdata/tiny/transformer/"
	cfg, err := ParseConfig(nntest.Read(t, dir+"config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c goldenCase
	nntest.Decode(t, nntest.Golden(t, goldenDir+"tiny.json")["stdit_v1_0_tiny"], &c)
	be := cpu.New(2)
	m, err := Load(cfg, weights.NewWeights(be, nntest.Open(t, dir+"model.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	shape := append([]int{1, cfg.InChannels}, cfg.InputSize[:]...)
	texts := captions(cfg, "input", masks(t, c.Mask, 1, cfg.ModelMaxLength))
	in := input{shape: shape, x: nntest.Hash("input.x", 1.7, shape...), timesteps: c.Timestep, texts: texts}
	got := harness{be, m}.forward(t, in)
	diff, largest := nntest.MaxDiff(got, c.Out)
	t.Logf("largest difference %.2g of %.3g", diff, largest)
	if diff > 1e-4*max(1, largest) {
		t.Errorf("differs by %g from PyTorch", diff)
	}
}
