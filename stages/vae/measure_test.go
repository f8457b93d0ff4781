package vae

import (
	"fmt"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// measured are the autoencoders that are timed: Stable Diffusion's, with which Open-Sora 1.0 and 1.1 decode, and those
// of Wan 2.1 and of Wan 2.2 TI2V-5B. The latter takes its latents for normal already.
var measured = map[string]string{
	"sd":  `{"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2}`,
	"wan": `{"_class_name": "AutoencoderKLWan"}`,
	"wan2.2": fmt.Sprintf(`{"_class_name": "AutoencoderKLWan", "base_dim": 160, "decoder_base_dim": 256, "z_dim": 48,
		"is_residual": true, "in_channels": 12, "out_channels": 12, "patch_size": 2, "scale_factor_spatial": 16,
		"latents_mean": [0%s], "latents_std": [1%s]}`, strings.Repeat(", 0", 47), strings.Repeat(", 1", 47)),
}

// TestMeasureClips times decoding and encoding. A case is an autoencoder, what it does, frames x height x width,
// frames at a time, and type: "wan decode 17x480x832 4 bf16".
func TestMeasureClips(t *testing.T) {
	be := nntest.Device(t)
	models := map[string]*Model{}
	nntest.Rounds(t, be, func(name string) nntest.Measured {
		var which, what, dtype string
		var frames, height, width, micro int
		if _, err := fmt.Sscanf(name, "%s %s %dx%dx%d %d %s", &which, &what, &frames, &height, &width, &micro, &dtype); err != nil {
			t.Fatalf("case %q: %v", name, err)
		}
		m := models[which+dtype]
		if m == nil {
			cfg, err := ParseConfig([]byte(measured[which]))
			if err != nil {
				t.Fatalf("case %q: %v", name, err)
			}
			cfg.DType = nntest.DType(t, dtype)
			m = hashed(t, cfg, be)
			models[which+dtype] = m
		}
		if what == "encode" {
			return measuredEncode(t, be, m, frames, height, width, micro)
		}
		return measuredDecode(t, be, m, frames, height, width, micro)
	})
}

// measuredDecode decodes latents that are the hash of their shape.
func measuredDecode(t *testing.T, be kernels.Backend, m *Model, frames, height, width, micro int) nntest.Measured {
	shape, err := m.LatentShape(frames, height, width)
	if err != nil {
		t.Fatal(err)
	}
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
		Need: func() int64 { return nntest.Need(t)(m.DecodeBytes(frames, height, width, micro)) },
	}
}

// measuredEncode encodes frames that are the hash of their shape.
func measuredEncode(t *testing.T, be kernels.Backend, m *Model, frames, height, width, micro int) nntest.Measured {
	shape := []int{3, frames, height, width}
	x := framesLast(&stages.Array{Shape: shape, Data: nntest.Hash("x", 1, shape...)})
	run := func() []float32 {
		z, err := m.Encode(be, videoOf(x), micro, nil)
		if err == nil {
			err = m.network.normalize(be, z)
		}
		if err != nil {
			t.Fatal(err)
		}
		return z.Data
	}
	return nntest.Measured{
		Run:    func() { run() },
		Result: run, // (C, T', h, w)
		Need:   func() int64 { return nntest.Need(t)(m.EncodeBytes(frames, height, width, micro)) },
	}
}
