package layout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"latentbeam/stages/sequence"
)

// blocksOfT5 returns the sizes of T5-xxl in 16 bit, in bytes: the embedding, 24 blocks, the final norm.
func blocksOfT5() []int64 {
	out := []int64{263_192_576, 385_896_448}
	for range 23 {
		out = append(out, 385_892_352)
	}
	return append(out, 8192)
}

func floats(x []int64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// TestPartitionOfT5: on 4 equal devices the fullest one holds the embedding and 6 blocks, because the embedding is smaller than a
// block.
func TestPartitionOfT5(t *testing.T) {
	blocks := blocksOfT5()
	targets := slices.Repeat([]Target{{16e9, 1}}, 4)
	runs, err := Partition(blocks, floats(blocks), targets)
	if err != nil {
		t.Fatal(err)
	}
	var most int64
	for _, r := range runs {
		var sum int64
		for _, b := range blocks[r.Lo:r.Hi] {
			sum += b
		}
		most = max(most, sum)
	}
	// For comparison: device_map="auto" of the reference puts 2,701,246,464 bytes on its fullest GPU.
	if most != 263_192_576+385_896_448+5*385_892_352 {
		t.Errorf("got runs %v with %d bytes on the fullest device, want the embedding and 6 blocks", runs, most)
	}
}

// TestPartitionIsTheBest: for random blocks and devices, Partition finds as good a partition as trying all cuts does. It fails only
// if no cut fits the memory.
func TestPartitionIsTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		n, ways := rng.IntN(9), 1+rng.IntN(4)
		bytes, work := make([]int64, n), make([]float64, n)
		for i := range n {
			bytes[i], work[i] = rng.Int64N(20), float64(rng.IntN(20))
		}
		targets := make([]Target, ways)
		for i := range targets {
			targets[i] = Target{rng.Int64N(60), 0.5 + rng.Float64()}
		}
		cost := func(runs []sequence.Range) float64 {
			worst := 0.0
			for i, r := range runs {
				var b int64
				var w float64
				for j := r.Lo; j < r.Hi; j++ {
					b, w = b+bytes[j], w+work[j]
				}
				if b > targets[i].Bytes {
					return math.Inf(1)
				}
				worst = max(worst, w/targets[i].Speed)
			}
			return worst
		}
		best := math.Inf(1) // over all cuts
		var try func(runs []sequence.Range, at int)
		try = func(runs []sequence.Range, at int) {
			if len(runs) == ways-1 {
				best = min(best, cost(append(runs, sequence.Range{Lo: at, Hi: n})))
				return
			}
			for hi := at; hi <= n; hi++ {
				try(append(runs, sequence.Range{Lo: at, Hi: hi}), hi)
			}
		}
		try(nil, 0)
		runs, err := Partition(bytes, work, targets)
		if err != nil {
			if !math.IsInf(best, 1) {
				t.Fatalf("blocks %v on %v: got error %v, but a cost of %g is possible", bytes, targets, err, best)
			}
			continue
		}
		at := 0
		for _, r := range runs {
			if r.Lo != at || r.Hi < r.Lo {
				t.Fatalf("got runs %v, want each to begin where the one before ends", runs)
			}
			at = r.Hi
		}
		if at != n || cost(runs) > best+1e-9 {
			t.Fatalf("blocks %v on %v: got runs %v of cost %g, but %g is possible", bytes, targets, runs, cost(runs), best)
		}
	}
	if _, err := Partition([]int64{1}, nil, []Target{{1, 1}}); err == nil {
		t.Error("a block without work is accepted")
	}
}

// TestStream: Stream keeps as many first blocks resident as fit beside two buffers of the size of the largest streamed block.
func TestStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks []int64
		fixed  int64 // bytes that belong to no block
		room   int64
		want   Streaming // resident blocks, bytes of a buffer, bytes in all
		ok     bool
	}{
		{"fits", []int64{10, 10, 10}, 5, 35, Streaming{3, 0, 35}, true},
		{"one stays", []int64{10, 10, 10, 10}, 5, 35, Streaming{1, 10, 35}, true},
		{"none stays", []int64{10, 10, 10}, 5, 25, Streaming{0, 10, 25}, true},
		{"the large first block stays", []int64{20, 5, 5, 5}, 0, 30, Streaming{1, 5, 30}, true},
		{"too small", []int64{10, 10, 10}, 5, 24, Streaming{}, false},
	} {
		got, err := Stream(c.blocks, c.fixed, c.room)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%s: got %+v and error %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// TestTensorCutsFallOnTheBordersOfSums: SumParts cuts n units into at most SumBlocks nearly equal parts, and workers take whole parts
// only, whatever their number. So a sum over parts does not depend on the number of workers.
func TestTensorCutsFallOnTheBordersOfSums(t *testing.T) {
	for _, n := range []int{1, 3, 14, 16, 24, 64, ColumnUnits(4608), ColumnUnits(10240), 289} {
		parts := SumParts(n)
		borders := map[int]bool{0: true}
		at, least, most := 0, n, 0
		for _, p := range parts {
			if p.Lo != at || p.Len() < 1 {
				t.Fatalf("%d units have the parts %v", n, parts)
			}
			at = p.Hi
			borders[at], least, most = true, min(least, p.Len()), max(most, p.Len())
		}
		if at != n || most-least > 1 || len(parts) != min(n, SumBlocks) {
			t.Fatalf("%d units have the parts %v", n, parts)
		}
		for ways := 1; ways <= 20; ways++ {
			cuts, err := TensorCut(n, ways)
			if err != nil {
				t.Fatal(err)
			}
			at = 0
			for _, c := range cuts {
				if c.Lo != at || c.Hi < c.Lo || !borders[c.Hi] {
					t.Fatalf("%d units over %d workers: %v", n, ways, cuts)
				}
				at = c.Hi
			}
			if at != n {
				t.Fatalf("%d units over %d workers end at %d", n, ways, at)
			}
		}
	}
	if cuts, _ := TensorCut(16, 3); !slices.Equal(cuts, []sequence.Range{{Lo: 0, Hi: 5}, {Lo: 5, Hi: 10}, {Lo: 10, Hi: 16}}) {
		t.Errorf("16 heads over 3 workers: %v", cuts)
	}
	if _, err := TensorCut(0, 3); err == nil {
		t.Error("no units are accepted")
	}
	if got := Columns(sequence.Range{Lo: 287, Hi: ColumnUnits(4600)}, 4600); got != (sequence.Range{Lo: 4592, Hi: 4600}) {
		t.Errorf("the last unit of 4600 columns is %v", got)
	}
}

// TestSumsDoNotDependOnTheCut: if workers add up whole parts, the sum over the parts has the same bits for any number of workers.
// If each worker adds up all of its numbers at once, the bits differ: this shows that the parts are needed.
func TestSumsDoNotDependOnTheCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 16))
	const n = 289
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	add := func(r sequence.Range) (s float32) {
		for _, v := range x[r.Lo:r.Hi] {
			s += v
		}
		return s
	}
	parts := SumParts(n)
	var want float32
	for _, p := range parts {
		want += add(p)
	}
	different := 0
	for ways := 1; ways <= SumBlocks; ways++ {
		cuts, _ := TensorCut(n, ways)
		var byParts, plain float32
		i := 0
		for _, c := range cuts { // a worker adds its parts one by one; the owner continues in index order
			for ; i < len(parts) && parts[i].Hi <= c.Hi; i++ {
				byParts += add(parts[i])
			}
			plain += add(c)
		}
		if byParts != want {
			t.Errorf("%d workers: got the sum %g, want %g as of one worker", ways, byParts, want)
		}
		if plain != want {
			different++
		}
	}
	if different == 0 {
		t.Error("sums by worker have the same bits too: the test shows nothing")
	}
}
