package nn

import (
	"context"
	"fmt"
	"time"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/weights"
)

// GridRank is one rank of a set that is split in up to three ways: by tokens, by weights and by blocks.
type GridRank struct {
	cost.Grid
	// Dev computes. Layers whose weights are split compute together with the other ranks of the tensor group.
	Dev kernels.Backend
	// Share, Cut and Stage are the rank's position in the grid.
	Share int
	Cut   weights.Cut
	Stage weights.PipelineStage
	// Sequence has the ranks with the other shares of the tokens, Pipeline the ranks with the other blocks.
	Sequence, Pipeline *kernels.Group
}

// First reports whether this rank delivers the results of its share.
func (s *GridRank) First() bool { return s.Cut.Rank == 0 && s.Stage.Rank == 0 }

// stagePatience is how long a stage of a pipeline waits for the stage before it. That stage may first compute all its blocks
// for a batch, and there is no exchange meanwhile that would show that it is alive. If a rank fails or disappears, the wait
// ends at once.
const stagePatience = time.Hour

// OnGrid runs f for every device of this process, as ranks of a grid. The grid has as many ranks as the set.
func OnGrid(ctx context.Context, set *stages.Set, grid cost.Grid, f func(ctx context.Context, s *GridRank) error) error {
	if set.Ranks() != grid.Ranks() {
		return fmt.Errorf("a set of %d devices for a grid of %v", set.Ranks(), grid)
	}
	return set.Run(ctx, func(ctx context.Context, dev kernels.Backend, g *kernels.Group) error {
		place, err := placeOf(dev, g, grid)
		if err != nil {
			return err
		}
		return f(ctx, place)
	})
}

// placeOf returns the position of g's rank and its groups.
func placeOf(dev kernels.Backend, g *kernels.Group, grid cost.Grid) (*GridRank, error) {
	share, tensor, stage := grid.Place(g.Rank())
	s := &GridRank{Grid: grid, Share: share, Cut: weights.Cut{Rank: tensor, Ways: grid.Tensor},
		Stage: weights.PipelineStage{Rank: stage, Ways: grid.Pipeline}}
	sequence, cut, pipeline := grid.Lines(g.Rank())
	var err error
	if s.Sequence, err = g.Sub(sequence, 0); err != nil {
		return nil, err
	}
	if s.Pipeline, err = g.Sub(pipeline, stagePatience); err != nil {
		return nil, err
	}
	together, err := g.Sub(cut, 0)
	if err != nil {
		return nil, err
	}
	s.Dev = weights.TensorParallel(dev, together)
	return s, nil
}
