package osplan

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// fullSizeEnv names a directory that testdata/osplan_against_torch.py has made: config.json, model.safetensors, and
// case.safetensors with the tensors x (1, c, T, H, W), text (L, width), timestep (1) and out, which is PyTorch's in fp32.
const fullSizeEnv = "LATENTBEAM_OSPLAN_FULL_SIZE"

// typeEnv is the type of weights and activations: fp32 or bf16.
const typeEnv = "LATENTBEAM_OSPLAN_DTYPE"

// TestFullSize evaluates a network of published size once, and reports its time and memory.
func TestFullSize(t *testing.T) {
	dir, cfg, file := nntest.FullSize(t, fullSizeEnv, ParseConfig)
	c := nntest.Open(t, filepath.Join(dir, "case.safetensors"))
	read := func(name string) ([]float32, []int) {
		x, ok := c.Tensor(name)
		if !ok {
			t.Fatalf("case.safetensors has no tensor %s", name)
		}
		return nntest.Floats(t, x), x.Shape
	}
	if cfg.DType = kernels.F32; os.Getenv(typeEnv) == "bf16" {
		cfg.DType = kernels.BF16
	}
	d, err := open(cfg, published{}, optionsOf(t, "dtype: "+map[kernels.DType]string{kernels.F32: "fp32", kernels.BF16: "bf16"}[cfg.DType]))
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.New(0)
	defer be.Scope()()
	begun := time.Now()
	m, err := Load(d.Config, weights.NewWeights(be, file))
	if err != nil {
		t.Fatal(err)
	}
	x, shape := read("x")
	text, textShape := read("text")
	timestep, _ := read("timestep")
	e := &stages.Element{Text: &stages.Text{Embedding: &stages.Array{Shape: textShape, Data: text}}}
	rows := &dit.Rows{Size: dit.LatentSize{T: shape[2], H: shape[3], W: shape[4]}, Rows: []dit.BatchRow{{Element: e}}}
	loaded, busy := time.Now(), processors(t)
	description := d.Describe()
	evaluate, err := description.Evaluator(be, m, rows)
	if err != nil {
		t.Fatal(err)
	}
	got, err := evaluate(t.Context(), x, timestep, nil)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(loaded)
	busy = processors(t) - busy
	want, _ := read("out")
	rms := nntest.RelativeRMS(got, want)
	t.Logf("loaded %.2f s, evaluated %.1f s, processors %.1f s, rms %.6g, peak %d kB", loaded.Sub(begun).Seconds(), took.Seconds(),
		busy.Seconds(), rms, nntest.ReadResident(t).Peak>>10)
	if limit := map[kernels.DType]float64{kernels.F32: 1e-4, kernels.BF16: 5e-2}[cfg.DType]; !(rms <= limit) {
		t.Errorf("relative RMS %g to PyTorch's fp32, want at most %g", rms, limit)
	}
}

// processors is the time that this process has had, of all processors together.
func processors(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
