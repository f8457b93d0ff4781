package engine

import (
	"math/rand/v2"
	"testing"

	"latentbeam/stages"
)

// TestDeal: rows that are dealt meet in fuller batches than rows in any order, and each comes out once. The parts get rows
// in turn, as Flink gives them.
func TestDeal(t *testing.T) {
	const size = 8
	e := newEngine(t, 1, step("s", fakeStage{}))
	e.MaxBatch = size
	// fill is how full batches are on average where the rows go to parts in this order.
	fill := func(rows []*stages.Element, parts int) float64 {
		all := 0
		for part := range parts {
			f, out := e.Buckets(), &batches{}
			for i := part; i < len(rows); i += parts {
				f.Put(rows[i], out.emit)
			}
			f.Close(out.emit)
			all += len(*out)
		}
		return float64(len(rows)) / float64(size*all)
	}
	for _, c := range []struct {
		rows, shapes, parts int
		least               float64 // that the fill must be
	}{
		{1000, 1, 12, 0.9}, {1000, 5, 12, 0.8}, {1000, 20, 12, 0.7}, {1000, 5, 48, 0.6}, {20000, 20, 48, 0.95}, {7, 3, 4, 0}, {0, 1, 4, 0},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		rows := make([]*stages.Element, c.rows)
		for i := range rows {
			rows[i] = element(8 * (1 + rng.IntN(c.shapes)))
		}
		e.Spread = &Spread{Parts: c.parts}
		var dealt []*stages.Element
		d := e.dealer(func(e *stages.Element) { dealt = append(dealt, e) })
		for _, row := range rows {
			d.put(row)
		}
		d.deal()
		e.Spread = nil
		seen := map[*stages.Element]bool{}
		for _, row := range dealt {
			seen[row] = true
		}
		if len(dealt) != c.rows || len(seen) != c.rows {
			t.Fatalf("%+v: %d rows came out, %d of them different", c, len(dealt), len(seen))
		}
		if c.rows == 0 {
			continue
		}
		before, after := fill(rows, c.parts), fill(dealt, c.parts)
		t.Logf("%d rows of %d shapes, %d parts: batches are full to %.2f, dealt %.2f", c.rows, c.shapes, c.parts, before, after)
		if after < max(before, c.least) {
			t.Errorf("%+v: batches are full to %.2f, %.2f without", c, after, before)
		}
	}
}
