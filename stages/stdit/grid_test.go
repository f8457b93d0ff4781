package stdit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// gridOf is the grid of sp x tp x pp ranks.
func gridOf(sp, tp, pp int) cost.Grid { return cost.Grid{Sequence: sp, Tensor: tp, Pipeline: pp} }

// checkGrids runs the case alone and on sets that are cut as given, and compares digests.
func (c layoutCase) checkGrids(t *testing.T, grids []cost.Grid, partitions ...string) {
	t.Helper()
	s := testStage(t, c.cfg)
	one := c.batch()
	if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	want := digest(t, one)
	for i, g := range grids {
		for _, p := range partitions {
			s.partition = p
			s.onGrid(g)
			batch := c.batch()
			if n := s.Width(&batch[0].Row); g.Shards() > 1 && n != g.Ranks() {
				t.Fatalf("%v: %d devices for a grid of %v", c, n, g)
			}
			newBackend := func() kernels.Backend { return cpu.New(1 + i%2) }
			if i%3 == 2 {
				newBackend = func() kernels.Backend { return kerneltest.Deferred(cpu.New(1)) }
			}
			speeds := sequence.Equal(g.Ranks())
			if i%2 == 1 {
				speeds[0] = 0.4
			}
			if err := s.RunSet(t.Context(), setOf(speeds, newBackend), batch); err != nil {
				t.Errorf("%v: %s over %v: %v", c, p, g, err)
			} else if digest(t, batch) != want {
				t.Errorf("%v: %s over %v gives other bytes than one rank", c, p, g)
			}
		}
	}
}

// TestSameBytesOnAnyGrid: latents have the same SHA-256 for every split of heads, blocks and tokens, for every version.
func TestSameBytesOnAnyGrid(t *testing.T) {
	grids := []cost.Grid{gridOf(1, 2, 1), gridOf(1, 3, 1), gridOf(1, 4, 1), gridOf(1, 1, 2), gridOf(1, 1, 3), gridOf(1, 2, 2),
		gridOf(2, 2, 1), gridOf(3, 3, 1), gridOf(2, 1, 2), gridOf(2, 2, 3)}
	for k, cfg := range tinyConfigs() {
		cfg.NumHeads, cfg.HiddenSize, cfg.Depth = 4, 48, 3
		few := grids
		if k%3 != 0 || testing.Short() {
			few = []cost.Grid{grids[k%len(grids)], grids[(k+3)%len(grids)], grids[(k+7)%len(grids)]}
		}
		layoutCase{cfg, 1, 5, 32, 48, 4}.checkGrids(t, few, "uneven", "pad")
		layoutCase{cfg, 3, 1, 48, 112, 7}.checkGrids(t, few, "uneven")
	}
}

// TestSameBytesOnRandomGrids is the same for random cases.
func TestSameBytesOnRandomGrids(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 21))
	cases := 40
	if testing.Short() {
		cases = 12
	}
	for range cases {
		cfg := tinyConfigs()[rng.IntN(8)]
		cfg.NumHeads = []int{2, 3, 4, 5, 7, 14}[rng.IntN(6)]
		cfg.HiddenSize, cfg.Depth = 12*cfg.NumHeads, 1+rng.IntN(3)
		g := gridOf(1+rng.IntN(3), 1+rng.IntN(min(4, cfg.NumHeads)), 1+rng.IntN(cfg.Depth))
		if g.Ranks() == 1 {
			g.Tensor = 2
		}
		side := func() int { return 16 * (1 + rng.IntN(5)) }
		layoutCase{cfg, 1 + rng.IntN(4), []int{1, 2, 5, 16}[rng.IntN(4)], side(), side(), []float64{1, 5}[rng.IntN(2)]}.
			checkGrids(t, []cost.Grid{g}, []string{"uneven", "pad"}[rng.IntN(2)])
	}
}

// TestWidthOfGrids: options that do not split weights do not change the width; others multiply it.
func TestWidthOfGrids(t *testing.T) {
	s := testStage(t, tinyConfig())
	row := layoutCase{s.Config, 1, 2, 32, 32, 4}.batch()[0].Row
	for width, tensor := range map[int]int{0: 0, 3: 1} {
		s.onGrid(gridOf(width, tensor, tensor))
		if n := s.Width(&row); n != width || s.loading().Shards() != 1 {
			t.Errorf("sequence_parallel %d, tp_size %d: width %d", width, tensor, n)
		}
	}
	s.onGrid(gridOf(2, 3, 2))
	if got := []int{s.Width(&row), s.loading().Shards()}; !slices.Equal(got, []int{12, 6}) {
		t.Errorf("a set of %d devices, %d for the weights", got[0], got[1])
	}
}

// TestPlannedRuns: every rank of a pipeline has the blocks that the plan gives it, and loads no others.
func TestPlannedRuns(t *testing.T) {
	cfg := tinyConfig()
	cfg.Depth = 4
	c := layoutCase{cfg, 2, 5, 32, 48, 4}
	one := c.batch()
	if err := testStage(t, cfg).Run(t.Context(), cpu.New(1), one); err != nil {
		t.Fatal(err)
	}
	s := testStage(t, cfg)
	parts := s.cost(&c.batch()[0].Row).Parts
	err := s.Hold(cost.Placement{Grid: gridOf(1, 1, 2), Runs: []sequence.Range{{Lo: 0, Hi: 1}, {Lo: 1, Hi: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	set := setOf(sequence.Equal(2), func() kernels.Backend { return nil })
	for i := range set.Devices {
		card := kerneltest.Card(cpu.New(1), 1<<30)
		set.Devices[i] = card
		if err := s.loading().LoadShard(card, i); err != nil {
			t.Fatal(err)
		}
		blocks := []int64{parts[1], parts[2] + parts[3] + parts[4]}[i]
		if card.WeightBytes != parts[0]+blocks {
			t.Errorf("rank %d holds %d bytes, want %d and %d of blocks", i, card.WeightBytes, parts[0], blocks)
		}
	}
	batch := c.batch()
	if err := s.RunSet(t.Context(), set, batch); err != nil {
		t.Fatal(err)
	}
	if digest(t, batch) != digest(t, one) {
		t.Error("other bytes with runs of 1 and 3 blocks")
	}
}
