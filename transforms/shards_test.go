package transforms

import (
	"testing"

	"latentbeam/stages"
)

// cutStage has its weights on so many devices.
type cutStage struct {
	stages.Sharded
	shards int
}

func (c cutStage) Shards() int { return c.shards }

// TestCappedSets: a set that failed is tried again as a smaller one that still holds the weights, at last as one
// device.
func TestCappedSets(t *testing.T) {
	for _, c := range []struct{ shards, n, cap, want int }{
		{1, 5, 4, 4}, {1, 2, 9, 2}, {2, 6, 5, 4}, {2, 4, 3, 2}, {2, 2, 1, 1}, {3, 6, 2, 1}, {4, 4, 4, 4}, {0, 3, 2, 2},
	} {
		if got := capped(&Step{Stage: cutStage{shards: c.shards}}, c.n, c.cap); got != c.want {
			t.Errorf("a set of %d with %d shards, at most %d: %d, want %d", c.n, c.shards, c.cap, got, c.want)
		}
	}
}
