package engine

import "slices"

// place puts a set that was chosen where it is best: one whose weights are cut always on the same devices, so that
// each of them loads one part only, any other on devices that are near each other.
func (f *Station) place(devices []int, v view) []int {
	if n := len(devices); n > 1 && f.step.Capabilities().Shards() > 1 {
		if block := v.block(n); block != nil {
			return block
		}
	}
	return f.near(devices, v)
}

// block returns n devices that begin at a multiple of n, those that are free first; nil: in each of these blocks a
// device is gone.
func (v view) block(n int) (best []int) {
	soonest := 0.0
	for at := 0; at+n <= len(v.rates); at += n {
		if slices.Min(v.rates[at:at+n]) <= 0 {
			continue
		}
		if free := slices.Max(v.free[at : at+n]); best == nil || free < soonest {
			soonest, best = free, best[:0]
			for d := at; d < at+n; d++ {
				best = append(best, d)
			}
		}
	}
	return best
}

// near replaces devices that were chosen by their speed alone by as many that reach each other faster, where the
// pool knows that and all that are free are alike.
func (f *Station) near(devices []int, v view) []int {
	closest := f.engine.Pool.Capabilities().Closest
	if closest == nil || len(devices) == 0 {
		return devices
	}
	var idle []int
	for d, rate := range v.rates {
		if rate <= 0 || v.free[d] != 0 {
			continue
		}
		if rate != v.rates[devices[0]] {
			return devices
		}
		idle = append(idle, d)
	}
	for _, d := range devices {
		if v.rates[d] <= 0 || v.free[d] != 0 {
			return devices // it waits for some that are not free
		}
	}
	return closest(idle, len(devices))
}
