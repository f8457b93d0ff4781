package sequence

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkOwnership checks that every column and every frame has one owner, or, for a frame that ranks share, every unit: a (frame, head,
// query). The parts of a rank must lie one after the other.
func checkOwnership(t *testing.T, p *Plan) {
	t.Helper()
	s := p.Shape
	columns := make([]int, s.Batch*s.Positions)
	frames := make([]int, s.Batch*s.Frames)
	units := map[[3]int]int{} // (frame, head, query)
	for r := range p.Ranks {
		at := 0
		for _, c := range p.Columns(r) {
			if c.At != at {
				t.Fatalf("rank %d keeps columns at %d, want %d", r, c.At, at)
			}
			at += c.Len()
			for i := c.Lo; i < min(c.Hi, s.Positions); i++ {
				columns[c.Element*s.Positions+i]++
			}
		}
		if at != p.ColumnSlots(r) {
			t.Fatalf("rank %d has %d column slots, want %d", r, p.ColumnSlots(r), at)
		}
		at = 0
		for _, f := range p.WholeFrames(r) {
			if f.At != at {
				t.Fatalf("rank %d keeps frames at %d, want %d", r, f.At, at)
			}
			at += f.Len()
			for i := f.Lo; i < min(f.Hi, s.Frames); i++ {
				frames[f.Element*s.Frames+i]++
			}
		}
		for _, c := range p.Pieces(r) {
			if c.Heads.Len() < 1 || c.Queries.Len() < 1 || c.Heads.Hi > s.Heads || c.Queries.Hi > s.Positions {
				t.Fatalf("rank %d has the piece %+v", r, c)
			}
			for h := c.Heads.Lo; h < c.Heads.Hi; h++ {
				for q := c.Queries.Lo; q < c.Queries.Hi; q++ {
					units[[3]int{c.Element*s.Frames + c.Frame, h, q}]++
				}
			}
		}
	}
	for i, n := range columns {
		if n != 1 {
			t.Fatalf("column %d has %d owners", i, n)
		}
	}
	for i, n := range frames {
		want := 1
		if n == 0 { // then all of its units have one owner each
			want = 0
			for h := range s.Heads {
				for q := range s.Positions {
					if units[[3]int{i, h, q}] != 1 {
						t.Fatalf("frame %d head %d query %d has %d owners", i, h, q, units[[3]int{i, h, q}])
					}
					delete(units, [3]int{i, h, q})
				}
			}
		}
		if n != want {
			t.Fatalf("frame %d has %d owners", i, n)
		}
	}
	if len(units) > 0 {
		t.Fatalf("%d units are owned twice, as pieces and in whole frames", len(units))
	}
}

// checkExchanges carries out every message and checks that each owner of frames and pieces receives exactly the tokens that it
// needs, and each owner of columns all results.
func checkExchanges(t *testing.T, p *Plan) {
	t.Helper()
	s := p.Shape
	results := map[[3]int]int{} // (element, position, frame) -> heads whose results come back
	for to := range p.Ranks {
		frames := make([]int, (p.FrameSlots(to)+len(p.Copies(to)))*p.Keys) // how many times each slot receives a token
		queries, keys := make([]int, len(p.Pieces(to))), make([]int, len(p.Pieces(to)))
		for from := range p.Ranks {
			for _, r := range p.ToFrames(from, to) {
				for c := r.Columns.Lo; c < r.Columns.Hi; c++ {
					for f := r.Frames.Lo; f < r.Frames.Hi; f++ {
						frames[(r.FrameAt+f-r.Frames.Lo)*p.Keys+c]++
						if c < s.Positions && f < s.Frames {
							results[[3]int{r.Element, c, f}] += s.Heads
						}
					}
				}
				if !keeps(p.Columns(from), r.Element, r.Columns, r.ColumnAt) {
					t.Fatalf("%d to %d: %+v is not where the sender keeps it", from, to, r)
				}
			}
			for _, r := range p.ToCopies(from, to) {
				for c := r.Columns.Lo; c < r.Columns.Hi; c++ {
					frames[r.FrameAt*p.Keys+c]++
				}
				if !keeps(p.Columns(from), r.Element, r.Columns, r.ColumnAt) {
					t.Fatalf("%d to %d: the copy %+v is not where the sender keeps it", from, to, r)
				}
			}
			for _, x := range p.LeftOver(from, to) {
				queries[x.Piece] += x.QueryRows()
				keys[x.Piece] += x.KeyRows()
				for q := x.Queries.Lo; q < x.Queries.Hi; q++ {
					results[[3]int{x.Element, q, x.Frame}] += x.Heads.Len()
				}
				if !keeps(p.Columns(from), x.Element, x.Keys, x.ColumnAt) ||
					x.Queries.Len() > 0 && x.QueryAt-x.ColumnAt != x.Queries.Lo-x.Keys.Lo {
					t.Fatalf("%d to %d: %+v is not where the sender keeps it", from, to, x)
				}
			}
		}
		for _, f := range append(slices.Clone(p.WholeFrames(to)), p.Copies(to)...) {
			for i, n := range frames[f.At*p.Keys : (f.At+f.Len())*p.Keys] {
				if real := f.Lo+i/p.Keys < s.Frames; n == 1 != real {
					t.Fatalf("rank %d gets token %d of its frames %v %d times", to, i, f, n)
				}
			}
		}
		for i, c := range p.Pieces(to) {
			if queries[i] != c.Heads.Len()*c.Queries.Len() || keys[i] != c.Heads.Len()*s.Positions {
				t.Fatalf("rank %d gets %d query rows and %d key rows for %+v", to, queries[i], keys[i], c)
			}
			copied := slices.IndexFunc(p.Copies(to), func(f ElementRange) bool {
				return f.Element == c.Element && f.Range == Range{c.Frame, c.Frame + 1}
			})
			if c.Tokens != (copied >= 0) || c.Tokens && p.CopyHeads(to, copied).And(c.Heads) != c.Heads {
				t.Fatalf("rank %d: piece %+v does not agree with its copy %d of the frame (-1: no copy)", to, c, copied)
			}
		}
	}
	if want := s.Batch * s.Frames * s.Positions; len(results) != want {
		t.Fatalf("results for %d tokens, want %d", len(results), want)
	}
	for k, n := range results {
		if n != s.Heads {
			t.Fatalf("token %v gets the results of %d heads, want %d", k, n, s.Heads)
		}
	}
}

// checkTraffic compares the plan's traffic with the sum of all messages.
func checkTraffic(t *testing.T, p *Plan) {
	t.Helper()
	want := make([]Traffic, p.Ranks)
	for from := range p.Ranks {
		for to := range p.Ranks {
			if from == to {
				continue
			}
			for _, r := range p.ToFrames(from, to) {
				want[from].Switch += int64(r.Tokens() * p.width)
				want[to].Switch += int64(r.Tokens() * p.Shape.Width())
			}
			for _, r := range p.ToCopies(from, to) {
				want[from].LeftOver += int64(r.Tokens() * p.width)
			}
			for _, s := range p.LeftOver(from, to) {
				if !s.Tokens {
					want[from].LeftOver += int64((s.QueryRows() + 2*s.KeyRows()) * p.Shape.HeadSize)
				}
				want[to].LeftOver += int64(s.QueryRows() * p.Shape.HeadSize)
			}
		}
	}
	if got := p.Sent(); !slices.Equal(got, want) {
		t.Errorf("Sent gives %+v, want %+v, the sum of the messages", got, want)
	}
}

// keeps reports whether one of the spans contains r of the element, with its first index stored at position at.
func keeps(spans []ElementRange, element int, r Range, at int) bool {
	for _, s := range spans {
		if s.Element == element && s.Lo <= r.Lo && r.Hi <= s.Hi && at == s.At+r.Lo-s.Lo {
			return true
		}
	}
	return false
}

// random returns a small shape, a partition and the speeds of up to 64 ranks.
func random(rng *rand.Rand) (Shape, Partition, []float64) {
	one := func(from []int) int { return from[rng.IntN(len(from))] }
	s := Shape{
		Batch: 1 + rng.IntN(6), Frames: one([]int{1, 2, 3, 5, 8, 16, 17, 30}),
		Positions: 1 + rng.IntN(48), Heads: one([]int{1, 3, 4, 14, 16}), HeadSize: one([]int{1, 4}),
		QueryTile: one([]int{0, 1, 4, 16, 64}),
	}
	ranks := 1 + rng.IntN(9)
	if rng.IntN(4) == 0 {
		ranks = 1 + rng.IntN(64)
	}
	speeds := Equal(ranks)
	if rng.IntN(2) == 0 {
		for i := range speeds {
			speeds[i] = 0.05 + rng.Float64()
		}
	}
	return s, Partition(rng.IntN(2)), speeds
}

// TestEverythingIsOwnedOnceAndSentOnce: in plans of random shapes, partitions and speeds, everything has one owner, every owner
// receives what it needs exactly once, and Sent is the sum of the messages.
func TestEverythingIsOwnedOnceAndSentOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 16))
	for i := range 600 {
		s, kind, speeds := random(rng)
		p, err := New(s, kind, speeds)
		if err != nil {
			t.Fatalf("case %d: %+v %v on %d ranks: %v", i, s, kind, len(speeds), err)
		}
		checkOwnership(t, p)
		checkExchanges(t, p)
		checkTraffic(t, p)
		if heads := 1 + rng.IntN(s.Heads); kind == Uneven { // fewer heads, as tensor parallelism leaves them
			if p, err = p.WithHeads(heads); err != nil {
				t.Fatal(err)
			}
			checkTraffic(t, p)
		}
		if t.Failed() {
			t.Fatalf("case %d: the errors above are of %+v %v on speeds %v", i, s, kind, speeds)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(2, 16, 60, 16, 64, 3, uint64(1), false)
	f.Add(1, 1, 37, 14, 0, 7, uint64(2), false)
	f.Add(2, 5, 31, 4, 1, 64, uint64(3), true)
	f.Fuzz(func(t *testing.T, b, frames, positions, heads, tile, ranks int, seed uint64, pad bool) {
		s := Shape{b, frames, positions, heads, 2, tile, false}
		if ranks < 0 || ranks > 64 {
			ranks %= 64
		}
		kind, speeds := Uneven, Equal(ranks)
		if pad {
			kind = Pad
		}
		for rng, i := rand.New(rand.NewPCG(seed, 0)), 0; seed > 0 && i < len(speeds); i++ {
			speeds[i] = 0.01 + rng.Float64()
		}
		p, err := New(s, kind, speeds)
		if err != nil || b*frames*positions*heads > 1<<14 {
			return // refused, or too large to check token by token
		}
		checkOwnership(t, p)
		checkExchanges(t, p)
		checkTraffic(t, p)
	})
}

// TestSixteenFramesOnThreeRanks: two elements of 16 frames are 32 frames: each rank has 10 whole frames, and a third of the
// 2 x 16 x 1024 queries of the two frames that are left over.
func TestSixteenFramesOnThreeRanks(t *testing.T) {
	p, err := New(Shape{2, 16, 1024, 16, 72, 1, false}, Uneven, Equal(3))
	if err != nil {
		t.Fatal(err)
	}
	units := func(r int) (n int) {
		for _, c := range p.Pieces(r) {
			n += c.Heads.Len() * c.Queries.Len()
		}
		return n
	}
	for r, want := range [][3]int{{683, 10, 10923}, {683, 10, 10923}, {682, 10, 10922}} {
		if got := [3]int{p.ColumnSlots(r), p.FrameSlots(r), units(r)}; got != want {
			t.Errorf("rank %d has columns, frames, units %v, want %v", r, got, want)
		}
	}
	if len(p.LeftFrames()) != 2 {
		t.Errorf("got the left-over frames %v, want 2", p.LeftFrames())
	}
}

// TestSpeeds: a rank with half the speed gets half the columns and half the frames.
func TestSpeeds(t *testing.T) {
	p, err := New(Shape{1, 16, 1000, 16, 8, 1, false}, Uneven, []float64{1, 0.5, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for r, want := range [][2]int{{500, 8}, {250, 4}, {250, 4}} {
		if got := [2]int{p.ColumnSlots(r), p.FrameSlots(r)}; got != want {
			t.Errorf("rank %d has columns and frames %v, want %v", r, got, want)
		}
	}
}

// TestQueryTilesAndWholeHeads: ranks divide the queries of a head at multiples of QueryTile only, and not at all if it is 0.
func TestQueryTilesAndWholeHeads(t *testing.T) {
	for _, tile := range []int{0, 64, 128} {
		p, err := New(Shape{1, 16, 1024, 16, 72, tile, false}, Uneven, Equal(5))
		if err != nil {
			t.Fatal(err)
		}
		for r := range p.Ranks {
			for _, c := range p.Pieces(r) {
				if c.Queries != (Range{0, 1024}) && (tile == 0 || c.Queries.Lo%tile != 0 || c.Queries.Hi%tile != 0) {
					t.Errorf("tile %d: rank %d has the queries %v", tile, r, c.Queries)
				}
			}
		}
	}
}

// TestHashTellsPlansApart: plans that differ in their partition, ranks, speeds or one number of their shape have different hashes;
// the same plan has the same hash again.
func TestHashTellsPlansApart(t *testing.T) {
	seen := map[uint64]string{}
	add := func(name string, s Shape, kind Partition, speeds []float64) {
		p, err := New(s, kind, speeds)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[p.Hash]; ok {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		seen[p.Hash] = name
		again, _ := New(s, kind, speeds)
		if again.Hash != p.Hash {
			t.Errorf("%s has another hash the second time", name)
		}
	}
	s := Shape{2, 16, 60, 16, 72, 64, false}
	add("plain", s, Uneven, Equal(3))
	add("padded", s, Pad, Equal(3))
	add("four ranks", s, Uneven, Equal(4))
	add("a slow rank", s, Uneven, []float64{1, 1, 0.5})
	for i, f := range []*int{&s.Batch, &s.Frames, &s.Positions, &s.Heads, &s.HeadSize} {
		*f++
		add(string(rune('a'+i)), s, Uneven, Equal(3))
	}
}

// TestSiblings: elements 2i and 2i+1 are siblings, the two branches of guidance. Siblings links every column of an element once to
// the same column of its sibling, where their ranks keep them.
func TestSiblings(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for range 100 {
		s, kind, speeds := random(rng)
		s.Batch *= 2
		p, err := New(s, kind, speeds)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[[2]int]int{}
		for from := range p.Ranks {
			for to := range p.Ranks {
				for _, l := range p.Siblings(2, from, to) {
					if l.From^1 != l.To || !keeps(p.Columns(from), l.From, l.Positions, l.FromAt) ||
						!keeps(p.Columns(to), l.To, l.Positions, l.ToAt) {
						t.Fatalf("%d to %d: %+v does not link two siblings, or not where the ranks keep them", from, to, l)
					}
					for i := l.Positions.Lo; i < l.Positions.Hi; i++ {
						seen[[2]int{l.From, i}]++
					}
				}
			}
		}
		if len(seen) != s.Batch*s.Positions {
			t.Fatalf("got %d columns with a sibling, want %d", len(seen), s.Batch*s.Positions)
		}
		for k, n := range seen {
			if n != 1 {
				t.Fatalf("column %v has %d siblings, want 1", k, n)
			}
		}
	}
}

// TestRefused: New refuses impossible shapes, ranks and speeds, and accepts a shape just within the limits.
func TestRefused(t *testing.T) {
	good := Shape{2, 16, 60, 16, 72, 64, false}
	for name, c := range map[string]struct {
		change func(*Shape)
		kind   Partition
		speeds []float64
	}{
		"no batch":       {func(s *Shape) { s.Batch = 0 }, Uneven, Equal(2)},
		"no frames":      {func(s *Shape) { s.Frames = -1 }, Uneven, Equal(2)},
		"huge":           {func(s *Shape) { s.Frames, s.Positions = 1<<20, 1<<35 }, Uneven, Equal(2)},
		"negative tile":  {func(s *Shape) { s.QueryTile = -1 }, Uneven, Equal(2)},
		"no ranks":       {func(*Shape) {}, Uneven, nil},
		"too many ranks": {func(*Shape) {}, Uneven, Equal(maxRanks + 1)},
		"a still rank":   {func(*Shape) {}, Uneven, []float64{1, 0}},
		"no partition":   {func(*Shape) {}, Partition(7), Equal(2)},
	} {
		s := good
		c.change(&s)
		if _, err := New(s, c.kind, c.speeds); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(Shape{1 << 16, 1, 1 << 20, 16, 72, 64, false}, Uneven, Equal(maxRanks)); err != nil {
		t.Errorf("a shape within the limits: %v", err)
	}
}
