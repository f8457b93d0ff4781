package sequence

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFullIsOwnedOnce: if all tokens of a row attend to each other, every column and every (row, head, query) has exactly one
// owner, the total work of all ranks is that of one rank, and ranks with equal speeds have equal parts up to a query tile.
func TestFullIsOwnedOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 22))
	costs := Costs{Local: 7, Project: 3, Score: 2}
	for i := range 600 {
		s, kind, speeds := random(rng)
		s.Full = true
		p, err := New(s, kind, speeds)
		if err != nil {
			t.Fatalf("case %d: %+v %v on %d ranks: %v", i, s, kind, len(speeds), err)
		}
		if rng.IntN(3) == 0 { // a third of the cases: fewer heads, as tensor parallelism leaves them
			if p, err = p.WithHeads(1 + rng.IntN(s.Heads)); err != nil {
				t.Fatal(err)
			}
			s = p.Shape
		}
		tokens := s.Frames * s.Positions
		columns, units := make([]int, s.Batch*s.Positions), make([]int, s.Batch*s.Heads*tokens)
		work := 0.0
		for r, pieces := range p.Full() {
			for _, c := range p.Columns(r) {
				for at := c.Lo; at < min(c.Hi, s.Positions); at++ {
					columns[c.Element*s.Positions+at]++
				}
			}
			for _, c := range pieces {
				for h := c.Heads.Lo; h < c.Heads.Hi; h++ {
					for q := c.Queries.Lo; q < c.Queries.Hi; q++ {
						units[(c.Element*s.Heads+h)*tokens+q]++
					}
				}
			}
			l := p.Load(r, costs)
			work += l.Local + l.Shared
		}
		for _, n := range append(columns, units...) {
			if n != 1 {
				t.Fatalf("case %d: %+v %v on speeds %v: a column or a query of a head has %d owners, want 1", i, s, kind, speeds, n)
			}
		}
		if total := s.Total(costs); kind == Uneven && math.Abs(work-total) > 1e-9*total {
			t.Errorf("case %d: %+v on speeds %v: got a work of %g for all ranks, want %g as for one rank", i, s, speeds, work, total)
		}
	}
}

// TestFullOnMoreRanksThanHeads: 12 heads on up to 16 ranks. Ranks that share a head divide its queries, so every rank has nearly the
// same work, and none sends more than about its part of seven tensors.
func TestFullOnMoreRanksThanHeads(t *testing.T) {
	s := Shape{Batch: 1, Frames: 21, Positions: 1560, Heads: 12, HeadSize: 128, QueryTile: 64, Full: true}
	for ranks := 1; ranks <= 16; ranks++ {
		p, err := New(s, Uneven, Equal(ranks))
		if err != nil {
			t.Fatal(err)
		}
		if waste := p.Imbalance(Costs{Local: 28 * 1536 * 1536, Score: 4 * 128}); waste > 0.003 {
			t.Errorf("%d ranks: the busiest does %.2f %% more than its share, want at most 0.3 %%", ranks, 100*waste)
		}
		sent, most := p.Sent(), int64(0)
		for _, x := range sent {
			most = max(most, x.Total())
		}
		// A rank sends the queries, keys, values and results of its columns: 4 tensors. Keys and values of a head that two ranks share
		// go to both, which adds less than 3.
		if a := int64(s.Frames * s.Positions * s.Width()); ranks > 1 && most > (4+3)*a/int64(ranks) {
			t.Errorf("%d ranks: the busiest sends %d numbers, want at most 7/%d of %d", ranks, most, ranks, a)
		}
	}
}
