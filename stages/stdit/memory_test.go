package stdit

import (
	"testing"
	"time"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
)

// memoryBeyondWeights limits the memory of a denoiser of published size besides its weights.
const memoryBeyondWeights = 1536 << 20

// TestMemoryOfXL2 opens the whole STDiT-XL/2 with random weights in bf16 and samples a clip of 16x256x256 in two steps under
// guidance. The largest resident memory is compared with the size of the weights.
func TestMemoryOfXL2(t *testing.T) {
	cfg := DefaultConfig(OpenSora10)
	dir, size := nntest.RandomBF16(t, "{}", shapes(t, cfg))
	nntest.ResetPeak(t)
	model, err := stages.OpenComponents(map[string]string{"transformer": dir})
	if err != nil {
		t.Fatal(err)
	}
	s, err := diffuse.Spec([]dit.Family{Denoiser()}, nil, nil).New(model, func(into any) error {
		into.(*options).DType = "bf16"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	guidance, seed := 7.0, int64(42)
	const tokens = 120
	e := &stages.Element{
		Row: schemas.PromptRow{Height: 256, Width: 256, NumFrames: 16, NumInferenceSteps: 2, GuidanceScale: &guidance,
			Seed: &seed},
		Text: &stages.Text{Embedding: &stages.Array{Shape: []int{tokens, cfg.CaptionChannels},
			Data: nntest.Hash("text", 1, tokens, cfg.CaptionChannels)}},
	}
	if err := s.Check(&e.Row); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Run(t.Context(), cpu.New(0), []*stages.Element{e}); err != nil {
		t.Fatal(err)
	}
	if e.Failed != nil || e.Latents == nil || e.NotFinite(stages.KindLatents) != "" {
		t.Fatalf("latents %v, %v", e.Latents != nil, e.Failed)
	}
	got := nntest.ReadResident(t)
	t.Logf("latents %v in %.1f s; weights %d MiB; resident at most %d MiB, %d beyond the weights of %d allowed; "+
		"at the end %d MiB of the file and %d others", e.Latents.Shape, time.Since(began).Seconds(), size>>20,
		got.Peak>>20, (got.Peak-size)>>20, memoryBeyondWeights>>20, got.File>>20, got.Anon>>20)
	if got.Peak > size+memoryBeyondWeights {
		t.Errorf("%d MiB resident", got.Peak>>20)
	}
}
