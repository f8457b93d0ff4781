package t5

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

// layerEnv names a directory with config.json and model.safetensors of a full-size encoder, whole or cut to a few
// layers, as transformers saves them, with ids.json ({"ids": [[...], ...]}, without padding) and out.f32, the last
// hidden states of all prompts one after the other as transformers computes them in fp32.
const layerEnv = "LATENTBEAM_T5_LAYER"

// TestFullSize runs an encoder of T5-xxl's size against transformers.
func TestFullSize(t *testing.T) {
	dir, cfg, file := nntest.FullSize(t, layerEnv, ParseConfig)
	var prompts struct {
		IDs [][]int32 `json:"ids"`
	}
	nntest.Decode(t, nntest.Read(t, filepath.Join(dir, "ids.json")), &prompts)
	be := cpu.New(2)
	e := nntest.Loaded(t, be, cfg, Load, file)
	want := nntest.Read(t, filepath.Join(dir, "out.f32"))
	at := 0
	for i, row := range encode(t, be, e, prompts.IDs) {
		expected := make([]float32, len(row))
		for j := range expected {
			expected[j] = math.Float32frombits(binary.LittleEndian.Uint32(want[4*(at+j):]))
		}
		at += len(row)
		diff, largest := nntest.MaxDiff(row, expected)
		t.Logf("%d tokens of width %d: largest difference %.2g of %.3g",
			len(prompts.IDs[i]), cfg.DModel, diff, largest)
		if diff > 1e-4*max(1, largest) {
			t.Errorf("%d tokens: differs by %g from transformers", len(prompts.IDs[i]), diff)
		}
	}
	if 4*at != len(want) {
		t.Errorf("out.f32 has %d bytes, the prompts %d", len(want), 4*at)
	}
}
