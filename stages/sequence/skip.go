package sequence

import "iter"

// Skip divides the tokens of a video into sub-sequences, like dealing cards: Width adjacent tokens to each of Ways in turn.
// Attention stays inside a sub-sequence (the skiparse attention of Open-Sora-Plan 1.3). The zero value is a single
// sub-sequence.
type Skip struct{ Ways, Width int }

// Dense reports whether all tokens are in one sub-sequence.
func (s Skip) Dense() bool { return s.Ways <= 1 }

// Way returns which sub-sequence a token is in.
func (s Skip) Way(token int) int {
	if s.Dense() {
		return 0
	}
	return token / s.Width % s.Ways
}

// Comb is Count runs of Width tokens. The first starts at Lo, and each next one Stride later.
type Comb struct{ Lo, Width, Count, Stride int }

// Tokens returns the number of tokens in a comb.
func (c Comb) Tokens() int { return c.Width * c.Count }

// Combs yields the tokens of r in a sub-sequence, in order. If a comb has more than one run, Count strides are inside r, so
// that a view of r can be divided into them.
func (s Skip) Combs(way int, r Range) iter.Seq[Comb] {
	return func(yield func(Comb) bool) {
		if s.Dense() {
			if r.Len() > 0 {
				yield(Comb{r.Lo, r.Len(), 1, r.Len()})
			}
			return
		}
		stride := s.Ways * s.Width
		for lo := r.Lo/stride*stride + way*s.Width; lo < r.Hi; {
			run := Range{lo, lo + s.Width}.And(r)
			count := (r.Hi - lo) / stride
			if lo < r.Lo || count < 2 {
				if lo += stride; run.Len() > 0 && !yield(Comb{run.Lo, run.Len(), 1, run.Len()}) {
					return
				}
				continue
			}
			if !yield(Comb{lo, s.Width, count, stride}) {
				return
			}
			lo += count * stride
		}
	}
}
