package t5

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// watched notes how much of mapped files is resident in every attention.
type watched struct {
	kernels.Backend
	t    testing.TB
	most int64
}

func (w *watched) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	w.Backend.Attention(dst, q, k, v, spec)
	w.most = max(w.most, nntest.ReadResident(w.t).File)
}

// Unwrap returns the backend.
func (w *watched) Unwrap() kernels.Backend { return w.Backend }

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

// TestStreamedEncoder: layers that pass through memory give the same numbers, and of a mapped file there are never
// more than those that stay and three others; on a card there are two.
func TestStreamedEncoder(t *testing.T) {
	cfg := Config{VocabSize: 64, DModel: 256, DKV: 32, DFF: 1024, NumLayers: 16, NumHeads: 8, Epsilon: 1e-6,
		FeedForward: "gated-gelu", NumBuckets: numBuckets, MaxDistance: maxDistance, DType: kernels.BF16}
	names := nn.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	dir, size := noiseOnDisk(t, names.Requested())
	ids := [][]int32{{5, 6, 7, 1}, {1}, {9, 8, 7, 6, 5, 4, 3, 2, 1}}
	run := func(dev kernels.Backend, stream bool, stay int) [][]float32 {
		m, err := stages.OpenComponents(map[string]string{"text_encoder": dir})
		if err != nil {
			t.Fatal(err)
		}
		c, err := nn.OpenComponent(m, "text_encoder", func([]byte) (Config, error) { return cfg, nil }, Load)
		if err != nil {
			t.Fatal(err)
		}
		if stream {
			c.Stream(stay)
		}
		e, err := c.On(dev)
		if err != nil {
			t.Fatal(err)
		}
		encode(t, dev, e, ids)
		return encode(t, dev, e, ids)
	}
	before := nntest.ReadResident(t).File
	const stay, slack = 2, 2 << 20
	block := size / int64(cfg.NumLayers)
	streamed := &watched{Backend: cpu.New(1), t: t}
	got := run(streamed, true, stay)
	most := streamed.most - before
	t.Logf("a file of %d KiB, %d KiB of it resident", size>>10, most>>10)
	if limit := (stay+3)*block + slack; most > limit {
		t.Errorf("%d KiB of the file are resident, at most %d are to be", most>>10, limit>>10)
	}
	whole := &watched{Backend: cpu.New(1), t: t}
	want := run(whole, false, 0)
	if all := whole.most - before; all < size-slack {
		t.Errorf("without streaming %d KiB of %d are resident: the measurement sees nothing", all>>10, size>>10)
	}
	card := kerneltest.Card(cpu.New(1), (stay+2)*block+slack)
	for name, rows := range map[string][][]float32{"in place": got, "card": run(card, true, stay),
		"late": run(kerneltest.Deferred(kerneltest.Card(cpu.New(1), (stay+2)*block+slack)), true, stay)} {
		if !slices.EqualFunc(rows, want, slices.Equal) {
			t.Errorf("%s: other numbers", name)
		}
	}
	if card.Refills == 0 {
		t.Error("nothing was exchanged on the card")
	}
}

// TestStreamedXXL encodes 120 tokens with the weights of the whole T5-xxl, random bf16 in a mapped file, of which two
// layers stay in memory. What is resident is bounded.
func TestStreamedXXL(t *testing.T) {
	cfg, shapes := xxl(t, xxlLayers)
	dir, size := nntest.RandomBF16(t, "{}", shapes)
	nntest.ResetPeak(t)
	m, err := stages.OpenComponents(map[string]string{"text_encoder": dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := nn.OpenComponent(m, "text_encoder", func([]byte) (Config, error) { return cfg, nil }, Load)
	if err != nil {
		t.Fatal(err)
	}
	const stay = 2
	c.Stream(stay)
	_, largest, _ := c.Bytes(cfg.DType)
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
