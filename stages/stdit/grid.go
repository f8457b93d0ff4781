package stdit

import (
	"context"

	"latentbeam/internal/plan"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// grid is how a set shares batches of rows like row: sequence_parallel by tp_size by pp_size. Videos of several
// clips and those conditioned by images are not shared by their columns.
func (s *stage) grid(row *schemas.PromptRow) plan.Grid {
	g := plan.Grid{Sequence: max(1, s.width), Tensor: max(1, s.tensor), Pipeline: max(1, s.pipeline)}
	if row.Loop > 1 || s.byImages(row) {
		g.Sequence = 1
	}
	return g
}

// Shards is how many devices together hold the weights.
func (s *stage) Shards(row *schemas.PromptRow) int { return s.grid(row).Shards() }

// runAlike lets all ranks of a tensor cut run the whole batch. What they compute is the same; the elements get
// the first rank's.
func (s *stage) runAlike(ctx context.Context, set *stages.Set, grid plan.Grid, batch []*stages.Element) error {
	batches := make([][]*stages.Element, grid.Ranks())
	batches[0] = batch
	for r := 1; r < len(batches); r++ {
		for _, e := range batch {
			own := *e
			batches[r] = append(batches[r], &own)
		}
	}
	return nn.OnGrid(ctx, set, grid, func(ctx context.Context, seat *nn.Seat) error {
		return s.Run(ctx, seat.Dev, batches[seat.Cut.Rank])
	})
}
