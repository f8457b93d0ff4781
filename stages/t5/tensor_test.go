package t5

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// TestTensorParallelGivesTheBytesOfOne: encoders whose heads and columns are split over ranks, evenly or not, give the bytes
// of one rank on every rank, in every type and with any number of threads.
func TestTensorParallelGivesTheBytesOfOne(t *testing.T) {
	ids := [][]int32{{5, 6, 7, 1}, {1}, {9, 8, 7, 6, 5, 4, 3, 2, 1}}
	for _, heads := range []int{4, 7, 24} {
		for i, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16, kernels.F32, kernels.BF16, kernels.F16} {
			cfg := Config{ModelType: []string{modelT5, modelUMT5}[i/3], VocabSize: 40, DModel: 24, DKV: 6, DFF: 88,
				NumLayers: 2, NumHeads: heads, Epsilon: 1e-6,
				FeedForward: "gated-gelu", NumBuckets: numBuckets,
				MaxDistance: maxDistance, DType: dt}
			file := nntest.File(t, nntest.Shapes(t, cfg, Load))
			one := cpu.New(1)
			whole := nntest.Loaded(t, one, cfg, Load, file)
			want := encode(t, one, whole, ids)
			for ways := 1; ways <= min(4, heads); ways++ {
				name := fmt.Sprintf("%s, %d heads, %v, %d ranks", cfg.ModelType, heads, dt, ways)
				err := kernels.RunRanks(context.Background(), cluster.Shared(ways), time.Second,
					func(ctx context.Context, i int, tr kernels.Transport) error {
						dev := kernels.Backend(cpu.New(1 + i%2))
						if ways == 3 {
							dev = kerneltest.Deferred(dev)
						}
						e, err := Load(cfg, weights.NewWeights(dev, file).Cut(weights.Cut{Rank: i, Ways: ways}))
						if err != nil {
							return err
						}
						be := weights.TensorParallel(dev, kernels.NewGroup(ctx, tr, dev, time.Minute))
						rows, err := e.Encode(be, ids)
						if err != nil {
							return err
						}
						for r, row := range rows {
							got := make([]float32, row.Len())
							if err := be.Download(got, row); err != nil {
								return err
							}
							if !slices.Equal(got, want[r]) {
								return fmt.Errorf("rank %d gives other numbers for prompt %d", i, r)
							}
						}
						return be.Wait()
					})
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// TestPipelineGivesTheBytesOfOne: the same for layers that are split over ranks, evenly or not, with more and with fewer
// groups of prompts than ranks.
func TestPipelineGivesTheBytesOfOne(t *testing.T) {
	groups := [][][]int32{{{5, 6, 7, 1}, {1}}, {{9, 8, 7, 6, 5, 4, 3, 2, 1}}, {{2, 1}}}
	for i, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16, kernels.F32, kernels.BF16, kernels.F16} {
		cfg := Config{ModelType: []string{modelT5, modelUMT5}[i/3], VocabSize: 40, DModel: 24, DKV: 6, DFF: 88,
			NumLayers: 4, NumHeads: 4, Epsilon: 1e-6,
			FeedForward: "gated-gelu", NumBuckets: numBuckets, MaxDistance: maxDistance, DType: dt}
		file := nntest.File(t, nntest.Shapes(t, cfg, Load))
		one := cpu.New(1)
		whole := nntest.Loaded(t, one, cfg, Load, file)
		var want [][][]float32
		for _, ids := range groups {
			want = append(want, encode(t, one, whole, ids))
		}
		for ways := 1; ways <= 4; ways++ {
			n := 1 + ways%3
			err := kernels.RunRanks(t.Context(), cluster.Shared(ways), time.Second,
				func(ctx context.Context, i int, tr kernels.Transport) error {
					be := cpu.New(1)
					e, err := Load(cfg, weights.NewWeights(be, file).Stage(weights.PipelineStage{Rank: i, Ways: ways}))
					if err != nil {
						return err
					}
					all, err := e.EncodePipeline(be, kernels.NewGroup(ctx, tr, be, time.Minute), groups[:n])
					if err != nil {
						return err
					}
					for j, rows := range all {
						for r, row := range rows {
							got := make([]float32, row.Len())
							if err := be.Download(got, row); err != nil {
								return err
							}
							if !slices.Equal(got, want[j][r]) {
								return fmt.Errorf("rank %d gives other numbers for prompt %d of group %d", i, r, j)
							}
						}
					}
					return nil
				})
			if err != nil {
				t.Errorf("%s, %v, %d ranks: %v", cfg.ModelType, dt, ways, err)
			}
		}
	}
}

// A cut encoder holds its part of the weights and no more.
func TestTensorParallelSharesTheWeights(t *testing.T) {
	cfg := Config{VocabSize: 40, DModel: 24, DKV: 6, DFF: 96, NumLayers: 1, NumHeads: 6, Epsilon: 1e-6,
		FeedForward: "gated-gelu", NumBuckets: numBuckets, MaxDistance: maxDistance}
	sizes := func(c weights.Cut) (attention, dense int) {
		e, err := Load(cfg, weights.ShapesOnly().Cut(c))
		if err != nil {
			t.Fatal(err)
		}
		l := e.layers[0]
		return l.q.W.Len() + l.k.W.Len() + l.v.W.Len() + l.o.W.Len(), l.wi0.W.Len() + l.wi1.W.Len() + l.wo.W.Len()
	}
	attention, dense := sizes(weights.Cut{})
	for rank := range 3 {
		a, d := sizes(weights.Cut{Rank: rank, Ways: 3})
		if a != attention/3 || d != dense/3 {
			t.Errorf("rank %d has %d and %d of %d and %d numbers", rank, a, d, attention, dense)
		}
	}
	names := weights.ShapesOnly()
	if _, err := Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	w := weights.NewWeights(cpu.New(1), nntest.File(t, names.Requested()))
	if _, err := Load(cfg, w.Cut(weights.Cut{Rank: 6, Ways: 7})); err == nil {
		t.Error("7 ranks for 6 heads are accepted")
	} else {
		t.Log(err)
	}
}
