package vae

import (
	"fmt"
	"testing"

	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// sdVAE is the configuration of Stable Diffusion's autoencoders, with which Open-Sora 1.0 and 1.1 decode.
const sdVAE = `{"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512],
	"layers_per_block": 2}`

// TestMeasureDecode times decoding. A case is latents, frames at a time, and type: "16x64x64 4 bf16".
func TestMeasureDecode(t *testing.T) {
	be := nntest.Device(t)
	var m *Model
	nntest.Rounds(t, be, func(name string) nntest.Measured {
		var frames, height, width, micro int
		var dtype string
		if _, err := fmt.Sscanf(name, "%dx%dx%d %d %s", &frames, &height, &width, &micro, &dtype); err != nil {
			t.Fatalf("case %q: %v", name, err)
		}
		cfg, err := ParseConfig([]byte(sdVAE))
		if err != nil {
			t.Fatal(err)
		}
		cfg.DType = nntest.DType(t, dtype)
		if m == nil || m.DType != cfg.DType {
			m = hashed(t, cfg, be)
		}
		shape := []int{4, frames, height, width}
		z := &stages.Array{Shape: shape, Data: nntest.Hash("z", 1, shape...)}
		decode := func(emit func([]float32)) {
			if err := m.Decode(be, z, frames, micro, emit); err != nil {
				t.Fatal(err)
			}
		}
		return nntest.Measured{
			Run: func() { decode(func([]float32) {}) },
			Result: func() (pixels []float32) { // (T, H, W, 3)
				decode(func(p []float32) { pixels = append(pixels, p...) })
				return pixels
			},
			Need: func() int64 { return nntest.Need(t)(cfg.DecodeBytes(frames, 8*height, 8*width, micro)) },
		}
	})
}
