package t5

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

const (
	// xxlConfig is T5 v1.1 xxl, the text encoder of Open-Sora, with so many layers.
	xxlConfig = `{"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": %d, "num_heads": 64, "vocab_size": 32128,
		"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "feed_forward_proj": "gated-gelu"}`
	xxlLayers = 24
	// memoryBeyondXXL is what encoding may take beside the mapped file: activations, packed panels, the runtime.
	memoryBeyondXXL = 512 << 20
	// mappedShare is how fast products from the mapped file are at least, of those from memory.
	mappedShare = 0.85
)

func xxl(t *testing.T, layers int) (Config, map[string][]int) {
	t.Helper()
	cfg, err := ParseConfig(fmt.Appendf(nil, xxlConfig, layers))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DType = kernels.BF16
	return cfg, nntest.Shapes(t, cfg, Load)
}

// TestMappedXXL encodes 120 tokens with the weights of the whole T5-xxl, random bf16 in a mapped file. The resident memory,
// besides the file's own pages, which the system can take back, is limited; and products are almost as fast as those of an
// encoder of two layers (0.8 GB) whose weights are in memory.
func TestMappedXXL(t *testing.T) {
	cfg, shapes := xxl(t, xxlLayers)
	dir, size := nntest.RandomBF16(t, "{}", shapes)
	nntest.ResetPeak(t)
	be := kernels.NewMetered(cpu.New(0))
	mapped, err := Load(cfg, weights.NewWeights(be, nntest.Open(t, filepath.Join(dir, "model.safetensors"))))
	if err != nil {
		t.Fatal(err)
	}
	first := productRate(t, be, mapped)
	got := nntest.ReadResident(t)
	beyond := got.Peak - size
	t.Logf("weights %d MiB; resident at most %d MiB, %d beyond the file of %d allowed; now %d MiB of the file and %d others",
		size>>20, got.Peak>>20, beyond>>20, memoryBeyondXXL>>20, got.File>>20, got.Anon>>20)
	if beyond > memoryBeyondXXL || got.Anon > memoryBeyondXXL {
		t.Errorf("%d MiB resident beyond the file, %d MiB of them cannot be taken back", beyond>>20, got.Anon>>20)
	}

	var file bytes.Buffer
	few, shapes := xxl(t, 2)
	nntest.WriteNoise(t, &file, shapes)
	f, err := safetensors.New(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	held, err := Load(few, weights.NewWeights(be, f))
	if err != nil {
		t.Fatal(err)
	}
	fromFile, fromMemory := 0.0, 0.0
	for range 3 {
		fromFile = max(fromFile, productRate(t, be, mapped))
		for range xxlLayers / 2 / 3 {
			fromMemory = max(fromMemory, productRate(t, be, held))
		}
	}
	t.Logf("products: %.1f GFLOP/s in the first pass, %.1f from the file, %.1f from memory: %.1f %%",
		first, fromFile, fromMemory, 100*fromFile/fromMemory)
	if fromFile < mappedShare*fromMemory {
		t.Errorf("products from the file reach less than %.0f %%", 100*mappedShare)
	}
}

// productRate encodes 120 tokens and returns the GFLOP/s of the linear layers.
func productRate(t *testing.T, be *kernels.Metered, e *Encoder) float64 {
	t.Helper()
	before, began := be.Usage()[kernels.OpLinear], time.Now()
	encode(t, be, e, [][]int32{make([]int32, 120)})
	after := be.Usage()[kernels.OpLinear]
	t.Logf("%d layers in %.2f s", len(e.layers), time.Since(began).Seconds())
	return (after.FLOP - before.FLOP) / (after.Time - before.Time).Seconds() / 1e9
}
