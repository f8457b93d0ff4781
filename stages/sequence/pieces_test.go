package sequence

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestWithHeads: with fewer heads, columns and frames keep their owners, and every query of every head has exactly one owner.
// With the same number of heads the plan does not change.
func TestWithHeads(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for range 200 {
		s := Shape{Batch: 1 + rng.IntN(3), Frames: 1 + rng.IntN(17), Positions: 1 + rng.IntN(40), Heads: 1 + rng.IntN(16),
			HeadSize: 8, QueryTile: []int{0, 1, 4}[rng.IntN(3)]}
		speeds := make([]float64, 1+rng.IntN(8))
		for i := range speeds {
			speeds[i] = 0.5 + rng.Float64()
		}
		p, err := New(s, []Partition{Uneven, Pad}[rng.IntN(2)], speeds)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := p.WithHeads(s.Heads); err != nil || !reflect.DeepEqual(same, p) {
			t.Fatalf("%+v on speeds %v: WithHeads changes the plan for the same number of heads, or error %v", s, speeds, err)
		}
		heads := 1 + rng.IntN(s.Heads)
		q, err := p.WithHeads(heads)
		if err != nil || !reflect.DeepEqual(q.columns, p.columns) || !reflect.DeepEqual(q.frames, p.frames) ||
			!reflect.DeepEqual(q.left, p.left) {
			t.Fatalf("%+v on speeds %v, %d heads: other owners of columns or frames, or error %v", s, speeds, heads, err)
		}
		checkOwnership(t, q)
		checkExchanges(t, q)
		units := 0
		for r := range q.Ranks {
			for _, piece := range q.Pieces(r) {
				units += piece.Heads.Len() * piece.Queries.Len()
				if piece.Heads.Hi > heads {
					t.Fatalf("%+v on speeds %v, %d heads: piece %+v has heads beyond them", s, speeds, heads, piece)
				}
			}
		}
		if want := len(p.left) * heads * s.Positions; units != want {
			t.Fatalf("%+v on speeds %v, %d heads: got %d pairs of head and query, want %d", s, speeds, heads, units, want)
		}
	}
	p, err := New(Shape{Batch: 1, Frames: 2, Positions: 3, Heads: 4, HeadSize: 8}, Uneven, Equal(3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WithHeads(0); err == nil {
		t.Error("no heads are accepted")
	}
}
