package shares

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/sampler"
)

// momentValues is the number of fp32 values that carry a position's moments: 4 values of 16 bits for each of two 64-bit
// numbers, before and after guidance.
const momentValues = 2 * 2 * 4

// Moments replaces the moments of this rank's shares by moments of whole elements. Ranks exchange the moments of their
// positions, each position once, and sort them by position. It implements sampler.Batch.Gather.
func (r *Rank) Moments(parts [][]sampler.Moments) error {
	defer r.dev.Scope()()
	views, shares := make([]kernels.Tensor, r.group.Size()), r.coveringShares()
	for q := range views {
		n := 0
		for _, s := range shares[q] {
			n += len(s.pixels)
		}
		views[q] = r.dev.Alloc(kernels.F32, max(1, n*momentValues))
	}
	me := r.group.Rank()
	values := make([]float32, 0, views[me].Len())
	for _, s := range shares[me] {
		for i, mine := range r.Shares {
			if mine.Element == s.Element && mine.patches == s.patches {
				values = appendMoments(values, parts[2*i], parts[2*i+1])
			}
		}
	}
	r.dev.Upload(views[me], append(values, make([]float32, views[me].Len()-len(values))...))
	if err := r.group.AllGather("moments", views); err != nil {
		return err
	}
	whole := map[int][2][]sampler.Moments{} // by element
	for q, view := range views {
		values := make([]float32, view.Len())
		if err := r.dev.Download(values, view); err != nil {
			return err
		}
		for _, s := range shares[q] {
			both, ok := whole[s.Element]
			if !ok {
				for k := range both {
					both[k] = make([]sampler.Moments, r.Size.H*r.Size.W)
				}
				whole[s.Element] = both
			}
			for _, p := range s.pixels {
				both[0][p], both[1][p] = readMoments(values), readMoments(values[momentValues/2:])
				values = values[momentValues:]
			}
		}
	}
	for i, s := range r.Shares {
		parts[2*i], parts[2*i+1] = whole[s.Element][0], whole[s.Element][1]
	}
	return nil
}

// appendMoments appends the moments of positions, before and after guidance, to values.
func appendMoments(values []float32, before, after []sampler.Moments) []float32 {
	for i := range before {
		for _, v := range []float64{before[i].Sum, before[i].Squares, after[i].Sum, after[i].Squares} {
			for bits, n := math.Float64bits(v), 0; n < 4; n++ {
				values = append(values, float32(bits>>(16*n)&0xffff))
			}
		}
	}
	return values
}

// readMoments decodes one position's moments.
func readMoments(values []float32) sampler.Moments {
	number := func(v []float32) float64 {
		var bits uint64
		for n := range 4 {
			bits |= uint64(v[n]) << (16 * n)
		}
		return math.Float64frombits(bits)
	}
	return sampler.Moments{Sum: number(values), Squares: number(values[4:])}
}
