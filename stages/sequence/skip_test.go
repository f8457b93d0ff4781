package sequence

import (
	"slices"
	"testing"
)

// TestCombs: Combs gives the tokens of a range that belong to one sub-sequence (a "way") as runs at equal distances, called combs.
// All ways together give every token of the range exactly once and in order, and Way agrees.
func TestCombs(t *testing.T) {
	for _, s := range []Skip{{}, {1, 1}, {4, 1}, {4, 4}, {3, 2}, {2, 5}} {
		for n := range 70 {
			for lo := range n + 1 {
				r, seen := Range{lo, n}, 0
				for way := range max(1, s.Ways) {
					var got []int
					for c := range s.Combs(way, r) {
						if c.Count > 1 && c.Lo+c.Count*c.Stride > r.Hi {
							t.Fatalf("%v of %v: the comb %v ends beyond the range", s, r, c)
						}
						if before := len(got); c.Tokens() == 0 {
							t.Fatalf("%v of %v: an empty comb after %d tokens", s, r, before)
						}
						for i := range c.Count {
							for j := range c.Width {
								got = append(got, c.Lo+i*c.Stride+j)
							}
						}
					}
					for i, token := range got {
						if s.Way(token) != way || token < lo || token >= n || i > 0 && token <= got[i-1] {
							t.Fatalf("%v of %v: way %d has the tokens %v, which are not in order, outside of the range, or of another way", s, r, way, got)
						}
					}
					seen += len(got)
				}
				if seen != n-lo {
					t.Fatalf("%v of %v: got %d tokens of all ways, want %d", s, r, seen, n-lo)
				}
			}
		}
	}
}

// TestSkipIsSkiparse: the sub-sequences are the same as in Skiparse attention of the reference, which rearranges tokens by '(g k)'
// in one kind of block and by '(n m k)' in the other, with k = 4.
func TestSkipIsSkiparse(t *testing.T) {
	const k, n = 4, 50
	for i, s := range []Skip{{k, 1}, {k, k}} {
		for way := range k {
			var want, got []int
			for token := range n { // the reference's sub-sequence of a token, by the two rearrangements
				if at := []int{token % k, token / k % k}[i]; at == way {
					want = append(want, token)
				}
				if s.Way(token) == way {
					got = append(got, token)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, way %d: got the tokens %v, want %v", s, way, got, want)
			}
		}
	}
}
