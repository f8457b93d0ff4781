package diffuse

import (
	"context"
	"math"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/layout"
	"latentbeam/stages/nn"
)

// Width returns sequence_parallel times the number of ranks that the weights are split over.
func (s *stage) Width(*schemas.PromptRow) int {
	if s.Shards() > 1 {
		return s.grid().Ranks()
	}
	return int(s.Options.SequenceParallel)
}

// grid returns how a set shares batches: sequence_parallel by tp_size by pp_size.
func (s *stage) grid() cost.Grid {
	g := s.Cut()
	g.Sequence = max(1, int(s.Options.SequenceParallel))
	return g
}

// Cost returns the network's cost over all steps, for texts of full length. An element can be shared by columns and frames;
// spatial attention needs communication.
func (s *stage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, err := dit.Work(s.Config, row, s.rehearsals)
	if err != nil {
		return work, err
	}
	e := s.Weigh(s.DType)
	if s.experts != nil {
		e.Grid.Pipeline = 1
	}
	e.Work, e.Kernels, e.Split, e.Rounds = work.Work, work.Kernels, work.Split, row.NumInferenceSteps
	if share := s.computedShare(row); share < 1 { // reduce the number of steps by the part that is skipped
		e.Work, e.Kernels = e.Work*share, e.Kernels.Times(share)
		e.Split.Steps = int(max(1, math.Round(float64(e.Split.Steps)*share)))
	}
	e.Split.Width = s.Width(row)
	if e.Split.Grid, e.Split.Sums = s.grid(), s.Sums; s.Shards() <= 1 {
		e.Split.Grid = cost.Grid{}
	}
	e.Split.Partitions, err = layout.Partitions(s.Options.Partition)
	return e, err
}

// computedShare returns the part of a row's evaluations that is computed, as far as it is known before sampling: with
// guidance_interval and magcache, but not with easycache.
func (s *stage) computedShare(row *schemas.PromptRow) float64 {
	sampler, err := s.recipe.New(row.NumInferenceSteps, s.clip(row))
	if err != nil {
		return 1 // Check refuses the row
	}
	j := &job{stage: s, batch: []*stages.Element{{Row: *row}}, guided: s.Guided(row), sampler: sampler}
	n, computed := newNetworks(j), 0
	for step := range sampler.Steps() {
		computed += n.computed(step)
	}
	return float64(computed) / float64(sampler.Steps()*j.branches())
}

// RunSet samples the batch on a set of devices, each a rank with its share of the columns. Rank 0 stores the latents.
func (s *stage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	k, failed := newKeeper(ctx, set.Saving), true
	defer func() { k.close(failed) }()
	for _, some := range s.byProgress(batch) {
		if err := s.runSet(ctx, set, k, some); err != nil {
			return err
		}
	}
	failed = false
	return nil
}

// runSet samples rows with the same progress.
func (s *stage) runSet(ctx context.Context, set *stages.Set, k *keeper, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return maker{stage: s, dev: set.Devices[0], keeper: k, writes: true}.run(ctx, batch)
	}
	grid := s.grid()
	if set.Ranks() != grid.Ranks() {
		grid = cost.Grid{Sequence: set.Ranks(), Tensor: 1, Pipeline: 1}
	}
	if s.experts != nil || s.isSequential(&batch[0].Row) || grid.Sequence == 1 && grid.Pipeline == 1 {
		return s.runReplicated(ctx, set, grid, k, batch)
	}
	j, err := s.newJob(batch, 0)
	if err != nil || j == nil {
		return err
	}
	return nn.OnGrid(ctx, set, grid, func(ctx context.Context, place *nn.GridRank) error {
		return maker{stage: s, dev: place.Dev, place: place, speeds: grid.Speeds(set.Speeds), keeper: k,
			writes: place.First() && place.Share == 0}.sample(ctx, j)
	})
}

// isSequential reports whether rows like row are sampled clip by clip, or image by image, with work in between that every rank
// does itself.
func (s *stage) isSequential(row *schemas.PromptRow) bool { return row.Loop > 1 || s.byImages(row) }

// runReplicated lets every rank run the whole batch, and ranks with shares of columns or blocks sample together. All ranks get the
// same result; the elements get the first rank's.
func (s *stage) runReplicated(ctx context.Context, set *stages.Set, grid cost.Grid, k *keeper, batch []*stages.Element) error {
	batches := make([][]*stages.Element, grid.Ranks())
	batches[0] = batch
	for r := 1; r < len(batches); r++ {
		for _, e := range batch {
			own := *e
			batches[r] = append(batches[r], &own)
		}
	}
	return nn.OnGrid(ctx, set, grid, func(ctx context.Context, place *nn.GridRank) error {
		m := maker{stage: s, dev: place.Dev, speeds: grid.Speeds(set.Speeds), keeper: k,
			writes: place.First() && place.Share == 0, replicated: true}
		if grid.Sequence > 1 || grid.Pipeline > 1 {
			m.place = place
		}
		return m.run(ctx, batches[grid.Rank(place.Share, place.Cut.Rank, place.Stage.Rank)])
	})
}
