package stdit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
)

// matrixRuns is how many random sets the matrix is run on, of matrixSets for each batch.
const (
	matrixRuns = 2000
	matrixSets = 20
	// matrixTokens bounds a batch, guidance included.
	matrixTokens = 80
)

// matrixBatch draws a network and a batch: every version and type of number, 1 to 3 elements of 1 to 30 latent frames
// of 1 to 23 patches, many of them a prime number, and 1 to 24 heads.
func matrixBatch(rng *rand.Rand) layoutCase {
	cfg := tinyConfigs()[rng.IntN(len(tinyConfigs()))]
	cfg.NumHeads = one(rng, 1, 4, 14, 16, 24)
	cfg.HiddenSize = 6 * cfg.NumHeads
	if cfg.NumHeads == 1 {
		cfg.HiddenSize = 12
	}
	cfg.Depth = one(rng, 1, 1, 1, 2, 3)
	c := layoutCase{cfg: cfg, frames: one(rng, 1, 2, 5, 16, 30), guidance: one(rng, 1.0, 5)}
	for fits := false; !fits; {
		c.n, c.height, c.width = 1+rng.IntN(3), 16*one(rng, 1, 1, 2, 3), 16*one(rng, 1, 2, 4, 5, 7, 11, 23)
		rows := c.n
		if c.guidance > 1 {
			rows *= 2
		}
		fits = rows*c.frames*c.height*c.width/256 <= matrixTokens
	}
	return c
}

func one[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// matrixSet draws a set: 1 to 9 ranks of sequence parallelism, or fewer times 1 to 4 of tensor and 1 to 3 of pipeline
// parallelism, and how fast each is.
func matrixSet(rng *rand.Rand, cfg Config) (cost.Grid, []float64) {
	g := gridOf(1+rng.IntN(9), 1, 1)
	if rng.IntN(3) == 0 {
		g = gridOf(1+rng.IntN(3), 1+rng.IntN(min(4, len(layout.SumParts(cfg.NumHeads)))), 1+rng.IntN(cfg.Depth))
	}
	speeds := sequence.Equal(g.Ranks())
	if rng.IntN(2) == 0 {
		for i := range speeds {
			speeds[i] = one(rng, 0.1, 0.5, 1, 3)
		}
	}
	return g, speeds
}

// TestMatrix: 2,000 random sets give the digest of one worker, for random networks and batches. TestSharedOracle of nn and
// the goldens of this package check that this digest is right.
func TestMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 9))
	seen := map[string]int{}
	most := matrixRuns
	if testing.Short() {
		most /= 4
	}
	for runs := 0; runs < most; {
		c := matrixBatch(rng)
		s := testStage(t, c.cfg)
		alone := c.batch()
		if err := s.Run(t.Context(), cpu.New(1), alone); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		want := digest(t, alone)
		for range matrixSets {
			runs++
			g, speeds := matrixSet(rng, c.cfg)
			s.onGrid(g)
			s.partition = one(rng, "uneven", "pad", "auto")
			threads, late := one(rng, 1, 1, 1, 2), rng.IntN(8) == 0
			got := c.batch()
			set := setOf(speeds, func() kernels.Backend {
				if late {
					return kerneltest.Deferred(cpu.New(threads))
				}
				return cpu.New(threads)
			})
			if err := s.RunSet(t.Context(), set, got); err != nil {
				t.Errorf("%v: %s over %v, speeds %v: %v", c, s.partition, g, speeds, err)
			} else if digest(t, got) != want {
				t.Errorf("%v: %s over %v, speeds %v gives other bytes than one rank", c, s.partition, g, speeds)
			}
			for _, what := range []string{c.cfg.name(), fmt.Sprint(c.cfg.NumHeads, " heads"), fmt.Sprint(c.frames, " frames"),
				fmt.Sprint(g.Ranks(), " ranks"), fmt.Sprint("tp ", g.Tensor), fmt.Sprint("pp ", g.Pipeline), s.partition} {
				seen[what]++
			}
		}
	}
	for _, what := range []string{"v1.0 F16", "v1.3 BF16", "1 heads", "14 heads", "24 heads", "30 frames", "9 ranks", "tp 4", "pp 3"} {
		if seen[what] == 0 {
			t.Errorf("no case has %s: %v", what, seen)
		}
	}
	t.Log(seen)
}
