package stdit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// TestPipelineGivesTheBytesOfOne: every version, its blocks cut over ranks evenly or not, gives on each of
// them what one rank gives, for more and for fewer evaluations than ranks.
func TestPipelineGivesTheBytesOfOne(t *testing.T) {
	for k, cfg := range tinyConfigs() {
		cfg.Depth = 3
		var ins []input
		var want [][]float32
		one := newHarness(t, cfg, 1)
		for i := range 3 {
			in := inputs(cfg, []int{1 + i, 4, 3, 4, 6})
			ins, want = append(ins, in), append(want, one.forward(t, in))
		}
		file := nntest.File(t, shapes(t, cfg))
		for ways := 1; ways <= 3; ways++ {
			n := 1 + (k+ways)%3
			err := kernels.Together(t.Context(), transport.Shared(ways), time.Second,
				func(ctx context.Context, i int, tr kernels.Transport) error {
					be := cpu.New(1 + i%2)
					m, err := Load(cfg, nn.NewWeights(be, file).Stage(nn.Stage{Rank: i, Ways: ways}))
					if err != nil {
						return err
					}
					r := harness{be, m}
					var all []Evaluation
					for _, in := range ins[:n] {
						all = append(all, r.evaluation(t, in))
					}
					outs, err := m.ForwardPipeline(be, kernels.NewGroup(ctx, tr, be, time.Minute), all)
					if err != nil {
						return err
					}
					for j, out := range outs {
						got := make([]float32, out.Len())
						if err := be.Download(got, out); err != nil {
							return err
						}
						if !slices.Equal(got, want[j]) {
							return fmt.Errorf("rank %d gives other numbers than a rank alone for evaluation %d", i, j)
						}
					}
					return nil
				})
			if err != nil {
				t.Errorf("%s on %d ranks: %v", cfg.name(), ways, err)
			}
		}
	}
}

func isBlock(name string) bool { return strings.Contains(name, "blocks.") }

// TestPipelineHoldsItsBlocks: a rank asks for its own blocks and refuses to be one of more ranks than blocks.
func TestPipelineHoldsItsBlocks(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		cfg.Depth = 3
		whole := shapes(t, cfg)
		asked := 0
		for rank := range 2 {
			w := nn.ShapesOnly().Stage(nn.Stage{Rank: rank, Ways: 2})
			if _, err := Load(cfg, w); err != nil {
				t.Fatal(err)
			}
			for name := range w.Requested() {
				if _, ok := whole[name]; ok && isBlock(name) {
					asked++
				}
			}
		}
		blocks := 0
		for name := range whole {
			if isBlock(name) {
				blocks++
			}
		}
		if asked != blocks {
			t.Errorf("%s: two ranks ask for %d tensors of blocks, there are %d", cfg.name(), asked, blocks)
		}
		w := nn.NewWeights(cpu.New(1), nntest.File(t, whole))
		if _, err := Load(cfg, w.Stage(nn.Stage{Rank: 3, Ways: 4})); err == nil {
			t.Errorf("%s: 4 ranks for 3 blocks are accepted", cfg.name())
		}
	}
}
