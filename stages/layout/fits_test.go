package layout

import (
	"math/rand/v2"
	"testing"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// searchLinearly returns the result that Most must have. It tries 2, 3, ... elements and returns the last number that fits.
func searchLinearly(t *testing.T, s cost.Estimate, d DeviceModel, n, limit int) int {
	t.Helper()
	for k := 2; k <= limit; k++ {
		if fits, err := estimate(s).fits(k, d, n); err != nil {
			t.Fatal(err)
		} else if !fits {
			return k - 1
		}
	}
	return limit
}

// randomSplit returns a small random stage that several devices share. One element needs about act float32 numbers of memory for
// each number of its tokens.
func randomSplit(rng *rand.Rand, act float64) cost.Estimate {
	one := func(from ...int) int { return from[rng.IntN(len(from))] }
	shape := sequence.Shape{Batch: 1 + rng.IntN(2), Frames: one(1, 2, 5, 16), Positions: one(1, 4, 15, 64, 200),
		Heads: one(1, 3, 4, 16), HeadSize: 8, QueryTile: one(0, 1, 16, 64)}
	tokens := float64(shape.Batch * shape.Frames * shape.Positions)
	return cost.Estimate{Name: "denoise",
		Need: func(n int) (int64, error) { return int64(float64(n) * act * tokens * float64(4*shape.Width())), nil },
		Split: &cost.Split{Shape: shape, Pairs: 2, Steps: 3, Bytes: 4,
			Costs: sequence.Costs{Local: 2000, Project: 300, Score: 4 * 8}}}
}

// TestMostIsTheLinearSearch: for any size of memory, Most gives the result of a linear search: one less than the first number of
// elements that does not fit. This holds even where a larger number fits again, because the devices divide it evenly.
func TestMostIsTheLinearSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 64))
	falls, within := 0, 0 // cases where a larger number fits again; where Most is neither 1 nor limit
	for i := range 250 {
		s, n, limit := randomSplit(rng, 0.5+6*rng.Float64()), 1+rng.IntN(9), 1+rng.IntN(24)
		if rng.IntN(8) == 0 {
			n, limit = 1+rng.IntN(64), 6
		}
		if n > 1 && rng.IntN(4) == 0 {
			s.Split.Grid = cost.Grid{Sequence: n, Tensor: 1 + rng.IntN(2), Pipeline: 2}
			n = s.Split.Grid.Ranks()
		}
		one, err := s.Need(1)
		if err != nil {
			t.Fatal(err)
		}
		d := DeviceModel{Memory: int64(float64(one) * float64(limit+3) * 1.5 * rng.Float64() / float64(n))}
		if rng.IntN(4) == 0 {
			s.Weights, d.Sharers = d.Memory/3, 2
		}
		want := searchLinearly(t, s, d, n, limit)
		if got := Most(s, d, n, limit); got != want {
			t.Fatalf("case %d: %d elements of %+v fit %d devices of %d bytes, want %d", i, got, s.Split.Shape, n, d.Memory, want)
		}
		if want > 1 && want < limit {
			within++
			if fits, err := estimate(s).fits(want+2, d, n); err == nil && fits {
				falls++
			}
		}
	}
	if within < 40 || falls < 3 {
		t.Errorf("the cases prove too little: memory ends before limit in %d, want 40; a larger number fits again in %d, want 3",
			within, falls)
	}
}

// TestMostAsksLittle: if all elements fit, Most calls Need only once, with the largest number.
func TestMostAsksLittle(t *testing.T) {
	s := stdit3(30, 920, 2)[1]
	need, asked := s.Need, 0
	s.Need = func(n int) (int64, error) { asked++; return need(n) }
	if k := Most(s, DeviceModel{Memory: 1 << 40}, 128, 64); k != 64 || asked != 1 {
		t.Errorf("got %d elements after %d calls of Need, want 64 after 1 call", k, asked)
	}
	alone := s
	alone.Split = nil
	asked = 0
	if k := Most(alone, DeviceModel{Memory: 80e9}, 4, 64); k != searchLinearly(t, alone, DeviceModel{Memory: 80e9}, 4, 64) {
		t.Errorf("a stage that devices cannot share: got %d elements, not the result of a linear search", k)
	}
}

// TestNothingIsAboveAtMost: no rank needs more memory than atMost says, under any partition. Most relies on it: it makes no plan
// where this upper bound fits.
func TestNothingIsAboveAtMost(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 64))
	for range 600 {
		s, k, n := randomSplit(rng, 3), 1+rng.IntN(6), 1+rng.IntN(40)
		need, err := s.Need(k)
		if err != nil {
			t.Fatal(err)
		}
		bound := estimate(s).atMost(need, k, n)
		for _, kind := range partitions {
			p, err := sequence.New(sharing(*s.Split).batch(k), kind, sequence.Equal(n))
			if err != nil {
				t.Fatal(err)
			}
			for r := range n {
				m, err := memory([]cost.Estimate{s}, p, k, r)
				if err != nil || m.Activations > bound.Activations || m.Exchange > bound.Exchange {
					t.Fatalf("%+v, %d elements, %v: rank %d of %d needs %+v, %v, the bound is %+v",
						s.Split.Shape, k, kind, r, n, m, err, bound)
				}
			}
		}
	}
}
