package stdit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// TestPipelineGivesTheBytesOfOne: every version whose blocks are split over ranks, evenly or not, gives the bytes of one rank
// on every rank, with more and with fewer evaluations than ranks.
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
			err := kernels.RunRanks(t.Context(), cluster.Shared(ways), time.Second,
				func(ctx context.Context, i int, tr kernels.Transport) error {
					be := cpu.New(1 + i%2)
					m, err := Load(cfg, weights.NewWeights(be, file).Stage(weights.PipelineStage{Rank: i, Ways: ways}))
					if err != nil {
						return err
					}
					r := harness{be, m}
					var all []evaluation
					for _, in := range ins[:n] {
						all = append(all, r.evaluation(t, in))
					}
					outs, err := forwardPipeline(m, be, kernels.NewGroup(ctx, tr, be, time.Minute), all)
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

// forwardPipeline is Forward for ranks of pipeline parallelism, whose models were loaded with a Stage: evaluations pass
// the ranks one after another. Every rank gives the same evaluations and gets all results.
func forwardPipeline(m *Model, be kernels.Backend, g *kernels.Group, all []evaluation) ([]kernels.Tensor, error) {
	outs := make([]kernels.Tensor, len(all))
	xs := make([]kernels.Tensor, len(all)) // (B, T', S, C)
	for i, e := range all {
		p := e.prepared
		outs[i] = be.Alloc(kernels.F32, e.x.Dim(0), m.OutChannels(), e.x.Dim(2), e.x.Dim(3), e.x.Dim(4))
		xs[i] = be.Alloc(m.DType, e.x.Dim(0), p.times.Len, p.patches.Len, m.HiddenSize)
	}
	view := func(i int) kernels.Tensor { return xs[i] }
	err := weights.Chain(g, "blocks", len(all), view, func(i int) error {
		defer be.Scope()()
		e := all[i]
		b := m.batch(be, e.prepared, []nn.Part{{Rows: nn.Span{Len: e.x.Dim(0)}, Patches: e.prepared.patches}}, nil)
		if g.Rank() == 0 {
			b.Embed(0, xs[i], nn.Patchify(be, m.DType, e.x, m.PatchSize))
		}
		last := g.Rank() == g.Size()-1
		tokens, err := b.Advance(xs[i:i+1], dit.Instant{Timesteps: e.timesteps, Generated: e.generated}, last)
		if err == nil && last {
			nn.Unpatchify(be, outs[i], tokens[0], m.PatchSize)
		}
		return err
	})
	for i := 0; err == nil && i < len(outs); i++ {
		err = g.Broadcast("result", g.Size()-1, outs[i])
	}
	return outs, err
}

func isBlock(name string) bool { return strings.Contains(name, "blocks.") }

// TestPipelineHoldsItsBlocks: a rank loads only its own blocks, and more ranks than blocks are refused.
func TestPipelineHoldsItsBlocks(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		cfg.Depth = 3
		whole := shapes(t, cfg)
		asked := 0
		for rank := range 2 {
			w := weights.ShapesOnly().Stage(weights.PipelineStage{Rank: rank, Ways: 2})
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
		w := weights.NewWeights(cpu.New(1), nntest.File(t, whole))
		if _, err := Load(cfg, w.Stage(weights.PipelineStage{Rank: 3, Ways: 4})); err == nil {
			t.Errorf("%s: 4 ranks for 3 blocks are accepted", cfg.name())
		}
	}
}
