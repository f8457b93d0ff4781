package stdit

import (
	"context"
	"slices"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// tensorRanks runs the network on ranks that each have a cut of its heads and columns, and returns how many of
// them give what one rank gives. join puts a rank's backend together with the others.
func tensorRanks(t *testing.T, cfg Config, ways int, cut func(rank int) weights.Cut,
	join func(dev kernels.Backend, g *kernels.Group) kernels.Backend) (right int) {
	t.Helper()
	in := inputs(cfg, []int{2, 4, 3, 5, 6})
	want := newHarness(t, cfg, 1).forward(t, in)
	file := nntest.File(t, shapes(t, cfg))
	same := make([]bool, ways)
	err := kernels.RunRanks(t.Context(), cluster.Shared(ways), time.Second,
		func(ctx context.Context, i int, tr kernels.Transport) error {
			dev := cpu.New(1 + i%2)
			m, err := Load(cfg, weights.NewWeights(dev, file).Cut(cut(i)))
			if err != nil {
				return err
			}
			be := join(dev, kernels.NewGroup(ctx, tr, dev, time.Minute))
			same[i] = slices.Equal((harness{be, m}).forward(t, in), want)
			return be.Wait()
		})
	if err != nil {
		t.Fatalf("%s on %d ranks: %v", cfg.name(), ways, err)
	}
	for _, ok := range same {
		if ok {
			right++
		}
	}
	return right
}

// TestTensorParallelGivesTheBytesOfOne: every version whose heads and columns are split over ranks gives the bytes of one
// rank on every rank.
func TestTensorParallelGivesTheBytesOfOne(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		cfg.NumHeads, cfg.HiddenSize, cfg.Depth = 7, 84, 1 // neither heads nor columns divide
		for ways := 2; ways <= 4; ways++ {
			cut := func(rank int) weights.Cut { return weights.Cut{Rank: rank, Ways: ways} }
			if n := tensorRanks(t, cfg, ways, cut, weights.TensorParallel); n < ways {
				t.Errorf("%s on %d ranks: %d of them give the numbers of a rank alone", cfg.name(), ways, n)
			}
		}
	}
}

// TestMutantsOfTensorParallel adds mistakes and checks that the comparison finds them: a test of the test above.
func TestMutantsOfTensorParallel(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		cfg.NumHeads, cfg.HiddenSize, cfg.Depth = 7, 84, 1
		const ways = 3
		straight := func(rank int) weights.Cut { return weights.Cut{Rank: rank, Ways: ways} }
		for name, c := range map[string]struct {
			cut  func(rank int) weights.Cut
			join func(dev kernels.Backend, g *kernels.Group) kernels.Backend
		}{
			"sums are not put together": {straight, func(dev kernels.Backend, _ *kernels.Group) kernels.Backend {
				return dev
			}},
			"parts of sums in another order": {func(rank int) weights.Cut {
				return weights.Cut{Rank: ways - 1 - rank, Ways: ways}
			}, weights.TensorParallel},
		} {
			if name != "sums are not put together" && cfg.DType != kernels.F32 {
				continue // the difference is in the last bits of fp32
			}
			if n := tensorRanks(t, cfg, ways, c.cut, c.join); n > 0 {
				t.Errorf("%s: %s: %d ranks give the right numbers all the same", cfg.name(), name, n)
			}
		}
	}
}
