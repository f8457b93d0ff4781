package stdit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// batchOf makes elements of one size with texts and seeds of their own, some with a negative prompt.
func batchOf(cfg Config, n, frames, height, width, steps int, guidance float64) []*stages.Element {
	var batch []*stages.Element
	for i := range n {
		seed := int64(100 + i)
		text := func(name string, length int) *stages.Array {
			return &stages.Array{Shape: []int{length, cfg.CaptionChannels},
				Data: nntest.Hash(fmt.Sprint(name, i), 1, length, cfg.CaptionChannels)}
		}
		e := &stages.Element{Text: &stages.Text{Embedding: text("text", 1+i*3%cfg.ModelMaxLength)}}
		if i%2 == 1 {
			e.Text.Negative = text("negative", 2)
		}
		e.Row = schemas.PromptRow{Seed: &seed, SampleIndex: i % 2, NumFrames: frames, Height: height, Width: width,
			FPS: 8, NumInferenceSteps: steps, GuidanceScale: &guidance}
		batch = append(batch, e)
	}
	return batch
}

// digest is the SHA-256 over the latents of a batch.
func digest(t testing.TB, batch []*stages.Element) string {
	t.Helper()
	h := sha256.New()
	for i, e := range batch {
		if e.Failed != nil || e.Latents == nil {
			t.Fatalf("element %d has no latents: %v", i, e.Failed)
		}
		fmt.Fprintf(h, "%v%v%g", e.Latents.Shape, e.Latents.Data, e.LatentScale)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// setOf is a set of ranks in this process.
func setOf(speeds []float64, newBackend func() kernels.Backend) *stages.Set {
	s := &stages.Set{Speeds: speeds, Connect: func(context.Context) ([]kernels.Transport, error) {
		return cluster.Shared(len(speeds)), nil
	}}
	for range speeds {
		s.Devices = append(s.Devices, newBackend())
	}
	return s
}

// layoutCase is a batch and the ways to compute it.
type layoutCase struct {
	cfg                      Config
	n, frames, height, width int
	guidance                 float64
}

func (c layoutCase) String() string {
	return fmt.Sprintf("%s %d heads, %d elements of %d frames of %dx%d, guidance %g", c.cfg.name(), c.cfg.NumHeads,
		c.n, c.frames, c.height, c.width, c.guidance)
}

func (c layoutCase) batch() []*stages.Element {
	frames := c.frames // of the latents
	more := map[Version]map[int]int{
		OpenSora12: {2: 17, 5: 17, 16: 55, 30: 102},
		OpenSora13: {2: 17, 5: 17, 16: 49, 30: 97}, // one less at 16
	}
	if n, ok := more[c.cfg.Version][frames]; ok {
		frames = n
	}
	return batchOf(c.cfg, c.n, frames, c.height, c.width, 2, c.guidance)
}

// check runs the case alone and on sets, and compares digests.
func (c layoutCase) check(t *testing.T, speeds [][]float64, partitions ...string) {
	t.Helper()
	s := testStage(t, c.cfg)
	one := c.batch()
	if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	want := digest(t, one)
	for i, v := range speeds {
		for _, p := range partitions {
			s.partition = p
			batch := c.batch()
			newBackend := func() kernels.Backend { return cpu.New(1 + i%2) }
			if i%3 == 2 {
				newBackend = func() kernels.Backend { return kerneltest.Deferred(cpu.New(1)) }
			}
			if err := s.RunSet(t.Context(), setOf(v, newBackend), batch); err != nil {
				t.Errorf("%v: %s over %v: %v", c, p, v, err)
			} else if digest(t, batch) != want {
				t.Errorf("%v: %s over %v gives other bytes than one rank", c, p, v)
			}
		}
	}
}

// TestSameBytesOnAnySet: latents have the same SHA-256 on 1 to 9 ranks, of equal and of different speeds, with and without
// padding, guided or not, for all sizes and heads.
func TestSameBytesOnAnySet(t *testing.T) {
	var equal [][]float64
	for n := 1; n <= 9; n++ {
		equal = append(equal, sequence.Equal(n))
	}
	if testing.Short() {
		equal = [][]float64{equal[1], equal[4], equal[8]}
	}
	equal = append(equal, []float64{1, 0.3, 2}, []float64{1, 1, 1, 0.1})
	for _, cfg := range tinyConfigs() {
		layoutCase{cfg, 1, 16, 32, 48, 4}.check(t, equal, "uneven", "pad")
		layoutCase{cfg, 2, 5, 16, 80, 1}.check(t, equal, "uneven", "pad")
		layoutCase{cfg, 3, 1, 48, 112, 7}.check(t, equal, "uneven", "pad")
		if cfg.Version == OpenSora13 { // 4 bands of windows, the last one lower
			layoutCase{cfg, 1, 5, 112, 48, 1}.check(t, equal, "uneven", "pad")
			layoutCase{cfg, 2, 5, 112, 48, 4}.check(t, equal, "uneven", "pad")
		}
	}
}
