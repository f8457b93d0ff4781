package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"latentbeam/schemas"
)

func hashText(l clipHash) string { return fmt.Sprintf("%016x-%016x-%016x", l[0], l[1], l[2]) }

// clipRow returns the row of a clip, or of a part of it.
func clipRow(id, media string, cut *schemas.Cut) *schemas.PromptRow {
	return &schemas.PromptRow{ID: id, Media: media, Cut: cut}
}

// TestLookalikesAreFound compares the index with a comparison of each row with each retained row.
func TestLookalikesAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for _, distance := range []int{0, 1, 3, 4, 7, 11, 15} {
		var centres, kept []clipHash
		for range 20 {
			centres = append(centres, clipHash{rng.Uint64(), rng.Uint64(), rng.Uint64()})
		}
		l, left, twins := newLookalikes(distance), []string{}, 0
		for i := range 600 {
			at := centres[rng.IntN(len(centres))]
			for w := range at { // up to twice the distance away
				for range rng.IntN(2*distance + 2) {
					at[w] ^= 1 << rng.IntN(64)
				}
			}
			why := l.Judge(clipRow(fmt.Sprint(i), fmt.Sprint(i), nil), hashText(at))
			want := ""
			for k, other := range kept {
				if d := at.distance(other); d <= distance {
					want = fmt.Sprintf("looks like %s (%d of 64 bits differ)", left[k], d)
					break
				}
			}
			if why != want {
				t.Fatalf("distance %d, row %d: %q, want %q", distance, i, why, want)
			}
			if want == "" {
				kept, left = append(kept, at), append(left, fmt.Sprint(i))
			} else {
				twins++
			}
		}
		if twins < 20 || len(kept) < 20 {
			t.Errorf("distance %d: %d twins, %d kept: the test shows little", distance, twins, len(kept))
		}
	}
}

// TestRowsOfOneClip: all captions and mirrors of a clip are retained or dropped together.
func TestRowsOfOneClip(t *testing.T) {
	a, far := clipHash{1, 2, 3}, clipHash{1, 1 << 40, 3}
	for w := range 12 {
		far[1] |= 1 << w
	}
	l := newLookalikes(2)
	cut := func(start int, flipped bool) *schemas.Cut { return &schemas.Cut{Start: start, Flipped: flipped} }
	for _, c := range []struct {
		id, media string
		cut       *schemas.Cut
		at        string
		want      string
	}{
		{"a", "a.mp4", cut(0, false), hashText(a), ""},
		{"a again", "a.mp4", cut(0, false), hashText(a), ""},
		{"a mirrored", "a.mp4", cut(0, true), hashText(a), ""},
		{"later in a", "a.mp4", cut(17, false), hashText(a), "looks like a (0 of 64 bits differ)"},
		{"b", "b.mp4", cut(0, false), hashText(clipHash{1, 2, 0}), "looks like a (2 of 64 bits differ)"},
		{"b again", "b.mp4", cut(0, false), hashText(clipHash{1, 2, 0}), "looks like a (2 of 64 bits differ)"},
		{"one word of the hash differs much", "c.mp4", cut(0, false), hashText(far), ""},
		{"no hash", "d.mp4", cut(0, false), "", ""},
		{"a hash of two words", "e.mp4", cut(0, false), "1-2", ""},
		{"not hexadecimal", "f.mp4", cut(0, false), strings.Repeat("g", 16) + "-2-3", ""},
	} {
		if got := l.Judge(clipRow(c.id, c.media, c.cut), c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.id, got, c.want)
		}
	}
}

// BenchmarkLookalikes uses a table of clips that do not look alike.
func BenchmarkLookalikes(b *testing.B) {
	for _, distance := range []int{3, 7, 11} {
		b.Run(fmt.Sprint(distance), func(b *testing.B) {
			rng, l, o := rand.New(rand.NewPCG(1, 0)), newLookalikes(distance), clipRow("x", "", nil)
			for i := range b.N {
				o.Media = fmt.Sprint(i)
				l.Judge(o, hashText(clipHash{rng.Uint64(), rng.Uint64(), rng.Uint64()}))
			}
			b.ReportMetric(float64(len(l.retained)), "kept")
		})
	}
}
