package schedule

import (
	"slices"
	"testing"

	"latentbeam/stages"
)

// cutStage has its weights on so many devices.
type cutStage struct {
	fakeStage
	shards int
}

func (c cutStage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Loading: &stages.Loading{Shards: func() int { return c.shards }}}
}

// TestCappedSets: a set that failed is tried again as a smaller one that still holds the weights, at last as one
// device.
func TestCappedSets(t *testing.T) {
	for _, c := range []struct{ shards, n, cap, want int }{
		{1, 5, 4, 4}, {1, 2, 9, 2}, {2, 6, 5, 4}, {2, 4, 3, 2}, {2, 2, 1, 1}, {3, 6, 2, 1}, {4, 4, 4, 4}, {0, 3, 2, 2},
	} {
		if got := capped(&stages.Step{Stage: cutStage{shards: c.shards}}, c.n, c.cap); got != c.want {
			t.Errorf("a set of %d with %d shards, at most %d: %d, want %d", c.n, c.shards, c.cap, got, c.want)
		}
	}
}

// TestBlocks: sets whose weights are cut begin at multiples of their width, so that a device is always the same
// part of its set; a block that lacks a device is passed over, a busy one is waited for.
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		rates, free []float64
		n           int
		want        []int
	}{
		{[]float64{1, 1, 1, 1}, []float64{0, 0, 0, 0}, 2, []int{0, 1}},
		{[]float64{1, 1, 1, 1}, []float64{3, 0, 0, 0}, 2, []int{2, 3}}, // never 1 and 2
		{[]float64{1, 1, 1, 1}, []float64{3, 0, 0, 5}, 2, []int{0, 1}},
		{[]float64{1, 0, 1, 1}, []float64{0, 0, 4, 4}, 2, []int{2, 3}},
		{[]float64{1, 1, 1, 1, 1}, []float64{9, 9, 9, 0, 0}, 3, []int{0, 1, 2}},
		{[]float64{1, 0, 0, 1}, []float64{0, 0, 0, 0}, 2, nil},
	} {
		if got := (view{rates: c.rates, free: c.free}).block(c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v free %v, a set of %d: %v, want %v", c.rates, c.free, c.n, got, c.want)
		}
	}
}

// TestCutSetsKeepTheirPlaces: a set with cut weights waits for its block; one without takes what is free.
func TestCutSetsKeepTheirPlaces(t *testing.T) {
	v := view{rates: []float64{1, 1, 1, 1}, free: []float64{2, 0, 0, 3}}
	for shards, want := range map[int][]int{1: {1, 2}, 2: {0, 1}} {
		s := New(testClock{}, []stages.Step{{Stage: cutStage{shards: shards}}}, newFakePool(4))
		if got := s.step(0).place([]int{1, 2}, v); !slices.Equal(got, want) {
			t.Errorf("%d shards: %v, want %v", shards, got, want)
		}
	}
}
