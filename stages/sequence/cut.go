package sequence

import (
	"fmt"
	"math"
	"math/bits"
)

// Range is a half-open range [Lo, Hi).
type Range struct{ Lo, Hi int }

// Len returns how many the range holds.
func (r Range) Len() int { return max(0, r.Hi-r.Lo) }

// And returns the intersection of r and o. If it is empty, its length is 0.
func (r Range) And(o Range) Range { return Range{max(r.Lo, o.Lo), min(r.Hi, o.Hi)} }

// fastest is the weight of the fastest rank. Weights are integers, so that every machine divides in the same way.
const fastest = 1 << 16

// weights are the ranks' shares: rank r has prefix[r] to prefix[r+1] of prefix[len].
type weights []int

// weigh converts relative speeds to weights.
func weigh(speeds []float64) (weights, error) {
	if len(speeds) < 1 || len(speeds) > maxRanks {
		return nil, fmt.Errorf("%d ranks, must be 1 to %d", len(speeds), maxRanks)
	}
	most := 0.0
	for i, s := range speeds {
		if !(s > 0) || math.IsInf(s, 1) {
			return nil, fmt.Errorf("the speed of rank %d is %g, must be positive", i, s)
		}
		most = max(most, s)
	}
	w := make(weights, 1, len(speeds)+1)
	for i, s := range speeds {
		w = append(w, w[i]+max(1, int(math.Round(s/most*fastest))))
	}
	return w, nil
}

func (w weights) total() int { return w[len(w)-1] }

// floor returns floor(n * part / total).
func (w weights) floor(n, part int) int {
	hi, lo := bits.Mul64(uint64(n), uint64(part))
	q, _ := bits.Div64(hi, lo, uint64(w.total()))
	return int(q)
}

// ceil returns ceil(n * part / total).
func (w weights) ceil(n, part int) int {
	hi, lo := bits.Mul64(uint64(n), uint64(part))
	q, r := bits.Div64(hi, lo, uint64(w.total()))
	if r > 0 {
		q++
	}
	return int(q)
}

// cut divides n things between the ranks, in order.
func (w weights) cut(n int) []Range {
	out := make([]Range, len(w)-1)
	for r := range out {
		out[r] = Range{w.ceil(n, w[r]), w.ceil(n, w[r+1])}
	}
	return out
}

// Cut divides n things between ranks with the given relative speeds: contiguous ranges in order. With equal speeds their
// lengths differ by at most one. A range may be empty.
func Cut(n int, speeds []float64) ([]Range, error) {
	if n < 0 || n > maxTokens {
		return nil, fmt.Errorf("cut %d things: must be 0 to %d", n, maxTokens)
	}
	w, err := weigh(speeds)
	if err != nil {
		return nil, fmt.Errorf("cut %d things: %w", n, err)
	}
	return w.cut(n), nil
}

// Equal returns the speeds of equally fast ranks.
func Equal(ranks int) []float64 {
	speeds := make([]float64, max(0, ranks))
	for i := range speeds {
		speeds[i] = 1
	}
	return speeds
}
