package nntest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// Shapes returns the tensors that a model with this configuration loads.
func Shapes[C, M any](t testing.TB, cfg C, load func(C, *weights.Weights) (*M, error)) map[string][]int {
	t.Helper()
	names := weights.ShapesOnly()
	if _, err := load(cfg, names); err != nil {
		t.Fatal(err)
	}
	return names.Requested()
}

// Loaded makes a model from the tensors of a file.
func Loaded[C, M any](t testing.TB, be kernels.Backend, cfg C, load func(C, *weights.Weights) (*M, error),
	file *safetensors.File) *M {
	t.Helper()
	m, err := load(cfg, weights.NewWeights(be, file))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Model is a published model with one component, such as "vae": an empty config.json, and these tensors with hashed weights.
func Model(t testing.TB, component string, shapes map[string][]int) *stages.Model {
	t.Helper()
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		component + "/config.json":                         &fstest.MapFile{Data: []byte("{}")},
		component + "/diffusion_pytorch_model.safetensors": &fstest.MapFile{Data: FileBytes(t, shapes)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// FullSize opens the directory that env names: config.json and model.safetensors of a model of published size, in the layout of
// the reference's modules. It skips the test if env is not set.
func FullSize[C any](t testing.TB, env string, parse func([]byte) (C, error)) (dir string, cfg C, weights *safetensors.File) {
	t.Helper()
	if dir = os.Getenv(env); dir == "" {
		t.Skip("set " + env + " to a directory of weights to run it")
	}
	cfg, err := parse(Read(t, filepath.Join(dir, "config.json")))
	if err != nil {
		t.Fatal(err)
	}
	return dir, cfg, Open(t, filepath.Join(dir, "model.safetensors"))
}

// DType returns the type that a case names.
func DType(t testing.TB, name string) kernels.DType {
	t.Helper()
	dt, ok := map[string]kernels.DType{"f32": kernels.F32, "bf16": kernels.BF16, "f16": kernels.F16}[name]
	if !ok {
		t.Fatalf("type %q: give f32, bf16 or f16", name)
	}
	return dt
}

// Values downloads x.
func Values(t testing.TB, be kernels.Backend, x kernels.Tensor) []float32 {
	t.Helper()
	out := make([]float32, x.Len())
	if err := be.Download(out, x); err != nil {
		t.Fatal(err)
	}
	return out
}
