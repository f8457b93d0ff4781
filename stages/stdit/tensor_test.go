package stdit

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// TestTensorParallelGivesTheBytesOfOne: every version, its heads and columns cut over ranks, gives on each of
// them what one rank gives.
func TestTensorParallelGivesTheBytesOfOne(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		cfg.NumHeads, cfg.HiddenSize, cfg.Depth = 7, 84, 1 // neither heads nor columns divide
		in := inputs(cfg, []int{2, 4, 3, 5, 6})
		want := newHarness(t, cfg, 1).forward(t, in)
		file := nntest.File(t, shapes(t, cfg))
		for ways := 2; ways <= 4; ways++ {
			err := kernels.Together(t.Context(), transport.Shared(ways), time.Second,
				func(ctx context.Context, i int, tr kernels.Transport) error {
					dev := cpu.New(1 + i%2)
					m, err := Load(cfg, nn.NewWeights(dev, file).Cut(nn.Cut{Rank: i, Ways: ways}))
					if err != nil {
						return err
					}
					be := nn.TensorParallel(dev, kernels.NewGroup(ctx, tr, dev, time.Minute))
					if got := (harness{be, m}).forward(t, in); !slices.Equal(got, want) {
						return fmt.Errorf("rank %d gives other numbers than a rank alone", i)
					}
					return be.Wait()
				})
			if err != nil {
				t.Errorf("%s on %d ranks: %v", cfg.name(), ways, err)
			}
		}
	}
}
