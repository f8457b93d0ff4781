package diffuse

import (
	"context"

	"latentbeam/internal/plan"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// grid is how a set shares batches: sequence_parallel by tp_size by pp_size.
func (s *stage) grid() plan.Grid {
	g := s.Cut()
	g.Sequence = max(1, int(s.Options.SequenceParallel))
	return g
}

// inTurn reports whether rows like row are made clip by clip, or image by image, with something between that every
// rank does for itself.
func (s *stage) inTurn(row *schemas.PromptRow) bool { return row.Loop > 1 || s.byImages(row) }

// runAlike lets every rank run the whole batch, where ranks with shares of the columns or of the blocks sample
// together. What they get is the same; the elements get the first rank's.
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
		m := maker{stage: s, dev: seat.Dev, speeds: grid.Speeds(set.Speeds)}
		if grid.Sequence > 1 || grid.Pipeline > 1 {
			m.seat = seat
		}
		return m.run(ctx, batches[grid.Rank(seat.Share, seat.Cut.Rank, seat.Stage.Rank)])
	})
}
