package cost

import (
	"slices"
	"testing"
)

// TestGrid: every rank has one place and is in its own groups, and the ranks of a group agree on the group.
func TestGrid(t *testing.T) {
	for _, g := range []Grid{{1, 1, 1}, {2, 3, 4}, {5, 1, 2}, {1, 4, 3}} {
		for r := range g.Ranks() {
			s, n, p := g.Place(r)
			if g.Rank(s, n, p) != r || s >= g.Sequence || n >= g.Tensor || p >= g.Pipeline {
				t.Errorf("%v: rank %d is at %d, %d, %d", g, r, s, n, p)
			}
			sequence, tensor, pipeline := g.Lines(r)
			if sequence[s] != r || tensor[n] != r || pipeline[p] != r {
				t.Errorf("%v: rank %d is not in its lines %v, %v, %v", g, r, sequence, tensor, pipeline)
			}
			for _, other := range tensor {
				if _, same, _ := g.Lines(other); !slices.Equal(same, tensor) {
					t.Errorf("%v: ranks %d and %d have other tensor groups", g, r, other)
				}
			}
		}
	}
	g := Grid{2, 2, 2}
	if got := g.Speeds([]float64{4, 3, 9, 9, 5, 6, 2, 7}); !slices.Equal(got, []float64{3, 2}) {
		t.Errorf("speeds %v, want those of the slowest ranks", got)
	}
	for _, c := range [][3]int{{1, 5, 1}, {2, 1, 1}, {2, 2, 2}, {2, 3, 3}, {2, 4, 2}, {2, 5, 5}, {3, 8, 4}, {2, 11, 2}, {4, 6, 6}} {
		if n := (Grid{1, 1, c[0]}).Groups(c[1]); n != c[2] {
			t.Errorf("%d elements go through %d stages in %d groups, want %d", c[1], c[0], n, c[2])
		}
	}
	if g.Shards() != 4 || g.String() != "2 x 2 x 2" {
		t.Errorf("%v has %d shards", g, g.Shards())
	}
}
