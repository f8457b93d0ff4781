package stdit

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

// fullSizeEnv names a directory with a denoiser as PyTorch wrote it and one evaluation of it: config.json,
// model.safetensors, case.json in the form of the golden files, and out.safetensors with the tensor "out".
const fullSizeEnv = "LATENTBEAM_FULL_SIZE"

// TestFullSize loads a model of published size and evaluates it once. It needs some gigabytes and minutes.
func TestFullSize(t *testing.T) {
	dir, cfg, file := nntest.FullSize(t, fullSizeEnv, ParseConfig)
	var c goldenCase
	nntest.Decode(t, json.RawMessage(nntest.Read(t, filepath.Join(dir, "case.json"))), &c)
	c.InputPrefix, c.version = "full", cfg.Version
	if c.DType == "bf16" {
		cfg.DType = kernels.BF16
	}
	want := nntest.Open(t, filepath.Join(dir, "out.safetensors"))
	out, ok := want.Tensor("out")
	if !ok {
		t.Fatal("out.safetensors has no tensor out")
	}
	start := time.Now()
	be := cpu.New(0)
	m := nntest.Loaded(t, be, cfg, Load, file)
	loaded := time.Now()
	got := harness{be, m}.forward(t, c.input(t, cfg))
	t.Logf("loaded in %v, evaluated in %v", loaded.Sub(start), time.Since(loaded))
	diff, largest := nntest.MaxDiff(got, nntest.Floats(t, out))
	rms := nntest.RelativeRMS(got, nntest.Floats(t, out))
	t.Logf("largest difference %.2g of %.3g, relative RMS %.4g", diff, largest, rms)
	if cfg.DType == kernels.BF16 {
		checkBF16(t, c, rms)
	} else if !(diff <= forwardTolerance*math.Max(1, largest)) {
		t.Errorf("differs by %g from PyTorch", diff)
	}
}
