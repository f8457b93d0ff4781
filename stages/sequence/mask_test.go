package sequence

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRunsAreTheValidTokens: for random masks and ranges of tokens, Runs gives the valid tokens of the range as non-empty runs in
// ascending order, and Has agrees. Masks larger than their grid, empty grids and grids whose size overflows are refused.
func TestRunsAreTheValidTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		var grid, valid [3]int
		for i := range grid {
			grid[i] = 1 + rng.IntN(6)
			valid[i] = rng.IntN(grid[i] + 1)
		}
		m, err := NewMask(grid, valid)
		if err != nil {
			t.Fatal(err)
		}
		lo := rng.IntN(m.Tokens() + 1)
		r := Range{lo, lo + rng.IntN(m.Tokens()-lo+1)}
		var want, got []int
		for i := range m.Tokens() {
			y, x := i/grid[2]%grid[1], i%grid[2]
			valid := i/grid[2]/grid[1] < valid[0] && y < valid[1] && x < valid[2]
			if valid != m.Has(i) {
				t.Fatalf("%+v: Has(%d) is %v, want the opposite", m, i, m.Has(i))
			}
			if valid && i >= r.Lo && i < r.Hi {
				want = append(want, i)
			}
		}
		for run := range m.Runs(r) {
			if run.Len() == 0 || len(got) > 0 && run.Lo <= got[len(got)-1] {
				t.Fatalf("%+v %v: run %v after %v", m, r, run, got)
			}
			for i := run.Lo; i < run.Hi; i++ {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v %v: runs hold %v, want %v", m, r, got, want)
		}
	}
	for _, c := range [][2][3]int{{{2, 3, 4}, {2, 4, 4}}, {{2, 3, 4}, {-1, 3, 4}}, {{0, 3, 4}, {0, 3, 4}},
		{{1 << 20, 1 << 20, 1 << 20}, {1, 1, 1}}} {
		if _, err := NewMask(c[0], c[1]); err == nil {
			t.Errorf("grid %v with %v valid is accepted", c[0], c[1])
		}
	}
}

// attend computes attention of query q over those of n keys for which has is true, in float64 and in ascending order.
func attend(out, q []float64, k, v func(i int) []float64, n int, has func(i int) bool) {
	scores, most := make([]float64, n), math.Inf(-1)
	for i := range n {
		if has(i) {
			for j, x := range q {
				scores[i] += x * k(i)[j]
			}
			most = max(most, scores[i])
		}
	}
	sum := 0.0
	clear(out)
	for i := range n {
		if has(i) {
			w := math.Exp(scores[i] - most)
			sum += w
			for j, x := range v(i) {
				out[j] += w * x
			}
		}
	}
	for j := range out {
		out[j] /= sum
	}
}

// osplan is the attention of Open-Sora-Plan: all tokens of (T, H, W) attend to each other under a mask. Each rank has the tokens of
// some frames, and all-to-all divides the heads among the ranks.
type osplan struct {
	Shape
	mask   Mask
	tokens []float64 // (tokens, 3, H, D): q, k and v of every token
}

func (o osplan) row(tokens []float64, token, part, head int) []float64 {
	return tokens[((token*3+part)*o.Heads+head)*o.HeadSize:][:o.HeadSize]
}

// alone computes the whole attention on one worker.
func (o osplan) alone() []float64 {
	out := make([]float64, o.Positions*o.Width())
	for h := range o.Heads {
		part := func(p int) func(int) []float64 { return func(i int) []float64 { return o.row(o.tokens, i, p, h) } }
		for i := range o.Positions {
			attend(out[i*o.Width()+h*o.HeadSize:][:o.HeadSize], part(0)(i), part(1), part(2), o.Positions, o.mask.Has)
		}
	}
	return out
}

// shared computes the attention on the ranks of a plan. A rank reads only its own tokens and those that messages bring. has says
// whether a key is valid, by its index in the whole grid (global) and by its index at the rank that owns it (local).
func (o osplan) shared(p *Plan, has func(global, local int) bool) []float64 {
	out := make([]float64, o.Positions*o.Width())
	for to := range p.Ranks {
		for i, piece := range p.Pieces(to) {
			q, k, v := map[[2]int][]float64{}, map[[2]int][]float64{}, map[[2]int][]float64{} // (head, token)
			at := map[int]int{}                                                               // token -> index at its owner
			for from := range p.Ranks {
				for _, s := range p.LeftOver(from, to) {
					if s.Piece != i {
						continue
					}
					for h := s.Heads.Lo; h < s.Heads.Hi; h++ {
						for x := s.Keys.Lo; x < s.Keys.Hi; x++ {
							k[[2]int{h, x}], v[[2]int{h, x}] = o.row(o.tokens, x, 1, h), o.row(o.tokens, x, 2, h)
							at[x] = s.ColumnAt + x - s.Keys.Lo
						}
						for x := s.Queries.Lo; x < s.Queries.Hi; x++ {
							q[[2]int{h, x}] = o.row(o.tokens, x, 0, h)
						}
					}
				}
			}
			for h := piece.Heads.Lo; h < piece.Heads.Hi; h++ {
				part := func(m map[[2]int][]float64) func(int) []float64 {
					return func(i int) []float64 { return m[[2]int{h, i}] }
				}
				for x := piece.Queries.Lo; x < piece.Queries.Hi; x++ {
					attend(out[x*o.Width()+h*o.HeadSize:][:o.HeadSize], q[[2]int{h, x}], part(k), part(v), o.Positions,
						func(i int) bool { return has(i, at[i]) })
				}
			}
		}
	}
	return out
}

// TestOpenSoraPlanMask: attention under a mask has the same bits on 2 to 9 workers as on one. Open-Sora-Plan has a mask (1, 24, 60,
// 80), which it copies to every worker. The sizes here are smaller; 6 heads cannot be divided evenly by most numbers of workers.
func TestOpenSoraPlanMask(t *testing.T) {
	m, err := NewMask([3]int{6, 5, 4}, [3]int{5, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	o := osplan{Shape: Shape{1, 1, m.Tokens(), 6, 2, 8, false}, mask: m}
	rng := rand.New(rand.NewPCG(24, 60))
	for range m.Tokens() * 3 * o.Width() {
		o.tokens = append(o.tokens, rng.NormFloat64())
	}
	want := o.alone()
	for n := 2; n <= 9; n++ {
		for name, speeds := range map[string][]float64{"equal": Equal(n), "one slow": append(Equal(n-1), 0.5)} {
			p, err := New(o.Shape, Uneven, speeds)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.shared(p, func(global, _ int) bool { return m.Has(global) }); !slices.Equal(got, want) {
				t.Errorf("%d workers, %s speeds: the result differs from that of one worker", n, name)
			}
			// This test must notice two mistakes: no mask, and a mask that is applied to local positions.
			if got := o.shared(p, func(int, int) bool { return true }); slices.Equal(got, want) {
				t.Errorf("%d workers, %s speeds: attention without a mask gives the same result, so this test shows nothing", n, name)
			}
			if got := o.shared(p, func(_, local int) bool { return m.Has(local) }); slices.Equal(got, want) {
				t.Errorf("%d workers, %s speeds: a mask of local positions gives the same result, so this test shows nothing", n, name)
			}
		}
	}
}

// TestMaskMemory: a Mask is six numbers. DenseBytes says how much a dense mask would take: 24 x 60 x 80 tokens in float32 for 8
// workers are 3,686,400 bytes, and a matrix of all pairs of the 24 x 30 x 40 patched tokens is 829,440,000 bytes.
func TestMaskMemory(t *testing.T) {
	const workers = 8
	latent, _ := NewMask([3]int{24, 60, 80}, [3]int{24, 60, 80})
	patched, _ := NewMask([3]int{24, 30, 40}, [3]int{20, 30, 40}) // after patches of (1, 2, 2)
	pairs, _ := patched.DenseBytes()
	_, tokens := latent.DenseBytes()
	if tokens*4*workers != 3_686_400 || pairs != 829_440_000 {
		t.Errorf("got %[2]d bytes for a mask in float32 on %[1]d workers and %[3]d for all pairs, want 3686400 and 829440000", workers, tokens*4*workers, pairs)
	}
	t.Logf("a mask (1, 24, 60, 80) repeated for %d workers in float32: %d bytes; as a matrix of pairs: %d bytes on each; "+
		"here: 6 numbers", workers, tokens*4*workers, pairs)
}
