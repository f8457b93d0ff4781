package vae

import (
	"path/filepath"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
)

// fullSizeEnv names a directory with config.json and model.safetensors of an autoencoder of published size, as
// the reference's modules have them, and case.json, what the reference computes with them: a case in the
// form of open-sora-vae.json without samples.
const fullSizeEnv = "LATENTBEAM_VAE"

// TestFullSize runs an autoencoder of published size against the reference.
func TestFullSize(t *testing.T) {
	dir, cfg, file := nntest.FullSize(t, fullSizeEnv, ParseConfig)
	var c goldenCase
	nntest.Decode(t, nntest.Read(t, filepath.Join(dir, "case.json")), &c)
	be := cpu.New(2)
	m := nntest.Loaded(t, be, cfg, Load, file)
	c.check(t, "mean", encode(t, be, m, c.XShape, 4, nil), c.MeanStride, c.Mean, 0)
	c.check(t, "pixels", decode(t, be, m, c.LatentsShape, c.PixelsShape[1], 4), c.PixelsStride, c.Pixels, 0)
}
