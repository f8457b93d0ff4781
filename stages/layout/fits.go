package layout

import (
	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// Least returns the smallest number of devices like d, at most limit, that have memory for k elements of a stage besides the
// weights. It returns limit if none has.
func Least(s cost.Estimate, k int, d DeviceModel, limit int) (int, error) {
	if s.Split == nil {
		return 1, nil
	}
	for n := 1; n < limit; n++ {
		if fits, err := estimate(s).fits(k, d, n); err != nil || fits {
			return n, err
		}
	}
	return limit, nil
}

// Most returns the number of elements of a stage, at most limit, for which n devices like d together have memory besides the
// weights; at least 1. If k elements do not fit it returns less than k, even if k+1 would fit: a number that the devices divide
// needs no exchange.
func Most(s cost.Estimate, d DeviceModel, n, limit int) int {
	if limit <= 1 {
		return limit
	}
	return estimate(s).most(d, n, 1, limit)
}

// most is Most if it is known that every number up to lo fits and hi does not fit. It makes no plans for numbers that fit with
// any plan.
func (s estimate) most(d DeviceModel, n, lo, hi int) int {
	if s.fitAll(lo+1, hi, d, n) {
		return hi
	}
	if hi == lo+1 {
		if fits, err := s.fits(hi, d, n); err != nil || !fits {
			return lo
		}
		return hi
	}
	mid := (lo + hi) / 2
	if k := s.most(d, n, lo, mid); k < mid {
		return k
	}
	return s.most(d, n, mid, hi)
}

// fitAll reports whether every number of elements from lo to hi fits with any plan; false means that it is not known. The
// memory of a stage does not fall with the number of elements (BatchSize).
func (s estimate) fitAll(lo, hi int, d DeviceModel, n int) bool {
	d.Mapped = true
	if s.Split == nil {
		fits, err := s.fits(hi, d, n)
		return fits && err == nil
	}
	need, err := s.activationsOf(hi)
	for k := lo; err == nil && k <= hi; k++ {
		if m := s.atMost(need, k, n); d.bytesOn(m) > d.room() {
			return false
		}
	}
	return err == nil
}

// atMost returns an upper limit for the memory of any rank in any plan of k elements on n equal devices. need is the memory of
// these elements on one device, or more. A rank has its share of the columns and of the frames, both padded by at most one for
// each element, and of the remaining frames less than a frame and a tile of queries.
func (s estimate) atMost(need int64, k, n int) MemoryUse {
	if g := s.Split.Grid; g.Shards() > 1 && n == g.Ranks() {
		n = g.Sequence
	}
	b := sharing(*s.Split).batch(k)
	share := func(things int) int { return (things+n-1)/n + b.Batch }
	columns := b.Batch * b.Positions
	const copies = 3 // a range of less than a frame and a tile can touch so many frames
	exchange := int64(2*share(b.Batch*b.Frames)+copies)*int64(b.Positions+n)*int64(b.Width()) +
		4*int64(b.Heads+2)*int64(b.Positions)*int64(b.HeadSize) // q, k, v and o; a head at both ends may be partial
	return MemoryUse{Stage: s.Name, Weights: s.Weights, Exchange: exchange * int64(s.Split.Bytes),
		Activations: int64(float64(need) * float64(share(columns)) / float64(columns))}
}

// activationsOf returns the memory for k elements on one device, without weights.
func (s estimate) activationsOf(k int) (int64, error) {
	if s.Need == nil {
		return 0, nil
	}
	return s.Need(k)
}

// fits reports whether n devices like d have memory for k elements, besides the weights.
func (s estimate) fits(k int, d DeviceModel, n int) (bool, error) {
	d.Mapped = true
	if s.Split == nil {
		need, err := s.activationsOf((k + n - 1) / n)
		return need <= d.room(), err
	}
	f, err := Cheapest(*s.Split, k, Ranks(sequence.Equal(n)))
	if err != nil {
		return false, err
	}
	for r := range n {
		m, err := memory([]cost.Estimate{cost.Estimate(s)}, f.Plan, k, r)
		if err != nil || d.bytesOn(m) > d.room() {
			return false, err
		}
	}
	return true, nil
}
