package vae

import (
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// TestTiny runs the decoder of the built-in model against diffusers, from its files.
func TestTiny(t *testing.T) {
	const dir = "../../testdata/tiny/vae/"
	cfg, err := ParseConfig(nntest.Read(t, dir+"config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		ScalingFactor float32   `json:"scaling_factor"`
		OutShape      []int     `json:"out_shape"`
		Out           []float32 `json:"out"`
	}
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/tiny.json")["vae_decode"], &c)
	be := cpu.New(2)
	m, err := Load(cfg, nn.NewWeights(be, nntest.Open(t, dir+"diffusion_pytorch_model.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	f := cfg.Downscale()
	shape := []int{c.OutShape[0], cfg.LatentChannels, c.OutShape[2] / f, c.OutShape[3] / f}
	z := nntest.Hash("input.z", 1, shape...)
	for i := range z {
		z[i] /= c.ScalingFactor
	}
	diff, largest := nntest.MaxDiff(channelsFirst(decode(t, be, m, z, shape), c.OutShape), c.Out)
	t.Logf("largest difference %.2g of %.3g", diff, largest)
	if diff > 1e-4*max(1, largest) {
		t.Errorf("differs by %g from diffusers", diff)
	}
}
