package schedule

import (
	"slices"
	"testing"

	"latentbeam/stages"
)

// cutStage is a stage whose weights are divided among shards devices.
type cutStage struct {
	fakeStage
	shards int
}

func (c cutStage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Loading: &stages.Loading{Shards: func() int { return c.shards }}}
}

// TestCappedSets: a set that failed is tried again as the largest smaller set that can hold the weights, and finally as one device.
func TestCappedSets(t *testing.T) {
	for _, c := range []struct{ shards, n, cap, want int }{
		{1, 5, 4, 4}, {1, 2, 9, 2}, {2, 6, 5, 4}, {2, 4, 3, 2}, {2, 2, 1, 1}, {3, 6, 2, 1}, {4, 4, 4, 4}, {0, 3, 2, 2},
	} {
		if got := capped(&stages.Step{Stage: cutStage{shards: c.shards}}, c.n, c.cap); got != c.want {
			t.Errorf("a set of %d with %d shards, at most %d: %d, want %d", c.n, c.shards, c.cap, got, c.want)
		}
	}
}

// TestBlocks: a set with divided weights starts at a multiple of its width, so that a device is always the same part of its set. A block
// with a drained device is skipped. A busy block is waited for.
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

// TestCutSetsKeepTheirPlaces: a set with divided weights waits for its block. A set without divided weights uses any free devices.
func TestCutSetsKeepTheirPlaces(t *testing.T) {
	v := view{rates: []float64{1, 1, 1, 1}, free: []float64{2, 0, 0, 3}}
	for shards, want := range map[int][]int{1: {1, 2}, 2: {0, 1}} {
		s := New(testClock{}, []stages.Step{{Stage: cutStage{shards: shards}}}, newFakePool(4))
		if got := s.step(0).place([]int{1, 2}, v); !slices.Equal(got, want) {
			t.Errorf("%d shards: %v, want %v", shards, got, want)
		}
	}
}
