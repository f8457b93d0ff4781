package t5

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// watched notes how much is resident in every attention, of mapped files and else.
type watched struct {
	kernels.Backend
	t          testing.TB
	most, anon int64
}

func (w *watched) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	w.Backend.Attention(dst, q, k, v, spec)
	now := nntest.ReadResident(w.t)
	w.most, w.anon = max(w.most, now.File), max(w.anon, now.Anon)
}

// noiseOnDisk writes a component with random weights and returns the size of its file.
func noiseOnDisk(t *testing.T, shapes map[string][]int) (dir string, size int64) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	nntest.WriteNoise(t, f, shapes)
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return dir, info.Size()
}

// streamedCase is an encoder on disk.
type streamedCase struct {
	Config
	dir  string
	size int64
}

func newStreamedCase(t *testing.T, model string) streamedCase {
	cfg := Config{ModelType: model, VocabSize: 64, DModel: 256, DKV: 32, DFF: 1024, NumLayers: 16, NumHeads: 8, Epsilon: 1e-6,
		FeedForward: "gated-gelu", NumBuckets: numBuckets, MaxDistance: maxDistance, DType: kernels.BF16}
	dir, size := noiseOnDisk(t, nntest.Shapes(t, cfg, Load))
	return streamedCase{cfg, dir, size}
}

// run encodes twice, with this number of resident layers; negative: all.
func (c streamedCase) run(t *testing.T, dev kernels.Backend, stay int) [][]float32 {
	t.Helper()
	ids := [][]int32{{5, 6, 7, 1}, {1}, {9, 8, 7, 6, 5, 4, 3, 2, 1}}
	m, err := stages.OpenComponents(map[string]string{"text_encoder": c.dir})
	if err != nil {
		t.Fatal(err)
	}
	component, err := weights.OpenComponent(m, "text_encoder", func([]byte) (Config, error) { return c.Config, nil }, Load)
	if err != nil {
		t.Fatal(err)
	}
	if stay >= 0 {
		component.Stream(stay)
	}
	e, err := component.On(dev)
	if err != nil {
		t.Fatal(err)
	}
	encode(t, dev, e, ids)
	return encode(t, dev, e, ids)
}

// TestStreamedEncoder: streamed layers give the same numbers. At most three layers of a mapped file are in memory besides the
// resident ones; on a card there are at most two.
func TestStreamedEncoder(t *testing.T) {
	for _, model := range []string{modelT5, modelUMT5} {
		t.Run(model, func(t *testing.T) { streamedEncoder(t, model) })
	}
}

func streamedEncoder(t *testing.T, model string) {
	c := newStreamedCase(t, model)
	before := nntest.ReadResident(t).File
	const stay, slack = 2, 2 << 20
	block := c.size / int64(c.NumLayers)
	streamed := &watched{Backend: cpu.New(1), t: t}
	got := c.run(t, streamed, stay)
	most := streamed.most - before
	t.Logf("a file of %d KiB, %d KiB of it resident", c.size>>10, most>>10)
	if limit := (stay+3)*block + slack; most > limit {
		t.Errorf("%d KiB of the file are resident, at most %d are to be", most>>10, limit>>10)
	}
	whole := &watched{Backend: cpu.New(1), t: t}
	want := c.run(t, whole, -1)
	if all := whole.most - before; all < c.size-slack {
		t.Errorf("without streaming %d KiB of %d are resident: the measurement sees nothing", all>>10, c.size>>10)
	}
	card := kerneltest.Card(cpu.New(1), (stay+2)*block+slack)
	for name, rows := range map[string][][]float32{"in place": got, "card": c.run(t, card, stay),
		"late": c.run(t, kerneltest.Deferred(kerneltest.Card(cpu.New(1), (stay+2)*block+slack)), stay)} {
		if !slices.EqualFunc(rows, want, slices.Equal) {
			t.Errorf("%s: other numbers", name)
		}
	}
	if card.Refills == 0 {
		t.Error("nothing was exchanged on the card")
	}
}

// TestStreamedRounded: layers that are rounded can also be streamed. Both of them and of their file, at most three layers are
// in memory besides the resident ones.
func TestStreamedRounded(t *testing.T) {
	c := newStreamedCase(t, modelT5)
	c.DType = kernels.F16 // except wo, which stays bf16 as in the file
	const stay, slack = 2, 2 << 20
	const heap = 14 << 20 // of Go, for data that was read once
	block := c.size / int64(c.NumLayers)
	debug.FreeOSMemory()
	before := nntest.ReadResident(t)
	streamed := &watched{Backend: cpu.New(1), t: t}
	got := c.run(t, streamed, stay)
	t.Logf("a file of %d KiB, %d KiB of it and %d others resident", c.size>>10, (streamed.most-before.File)>>10,
		(streamed.anon-before.Anon)>>10)
	limit := (stay+3)*block + slack
	if file, anon := streamed.most-before.File, streamed.anon-before.Anon; file > limit || anon > limit+heap {
		t.Errorf("%d KiB of the file and %d others are resident, at most %d and %d are to be", file>>10, anon>>10, limit>>10,
			(limit+heap)>>10)
	}
	debug.FreeOSMemory()
	before = nntest.ReadResident(t)
	whole := &watched{Backend: cpu.New(1), t: t}
	want := c.run(t, whole, -1)
	if all := whole.anon - before.Anon; all < limit+heap {
		t.Errorf("without streaming %d KiB are resident: the measurement sees nothing", all>>10)
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Error("other numbers")
	}
	card := kerneltest.Card(cpu.New(1), (stay+2)*block+slack)
	if rows := c.run(t, card, stay); !slices.EqualFunc(rows, want, slices.Equal) || card.Refills == 0 {
		t.Error("other numbers on a card, or nothing was exchanged there")
	}
}

// TestStreamedOnDevice: LATENTBEAM_BENCH_DEVICE names a device with its own memory. Layers that are rounded while they are
// streamed through its two buffers give the numbers of resident layers.
func TestStreamedOnDevice(t *testing.T) {
	if os.Getenv(nntest.DeviceEnv) == "" {
		t.Skip("set " + nntest.DeviceEnv + " to cuda:0, or run make cuda")
	}
	c := newStreamedCase(t, modelT5)
	c.DType = kernels.F16
	want := c.run(t, nntest.Device(t), -1)
	if got := c.run(t, nntest.Device(t), 2); !slices.EqualFunc(got, want, slices.Equal) {
		t.Error("other numbers")
	}
}

// TestStreamedXXL encodes 120 tokens with the weights of the whole T5-xxl, random bf16 in a mapped file, with two resident
// layers. The resident memory is limited.
func TestStreamedXXL(t *testing.T) {
	cfg, shapes := xxl(t, xxlLayers)
	dir, size := nntest.RandomBF16(t, "{}", shapes)
	nntest.ResetPeak(t)
	m, err := stages.OpenComponents(map[string]string{"text_encoder": dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := weights.OpenComponent(m, "text_encoder", func([]byte) (Config, error) { return cfg, nil }, Load)
	if err != nil {
		t.Fatal(err)
	}
	const stay = 2
	c.Stream(stay)
	_, parts := c.Bytes(cfg.DType)
	largest := slices.Max(parts)
	be := cpu.New(0)
	e, err := c.On(be)
	if err != nil {
		t.Fatal(err)
	}
	opened := nntest.ReadResident(t).Peak
	ids := make([]int32, 120)
	for range 2 {
		began := time.Now()
		encode(t, be, e, [][]int32{ids})
		t.Logf("encoded in %.1f s", time.Since(began).Seconds())
	}
	got := nntest.ReadResident(t)
	t.Logf("weights %d MiB; resident at most %d MiB while opening and checking, %d MiB in all; at the end %d MiB of the "+
		"file and %d others", size>>20, opened>>20, got.Peak>>20, got.File>>20, got.Anon>>20)
	if limit := (stay+4)*largest + memoryBeyondXXL; got.Peak > limit {
		t.Errorf("%d MiB resident, at most %d are to be", got.Peak>>20, limit>>20)
	}
}
