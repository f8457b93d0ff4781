package schedule

import (
	"slices"

	"latentbeam/stages"
)

// place puts a set that was chosen where it is best: a set with cut weights always on the same devices, so that each
// loads one part only; any other set on devices near each other.
func (f step) place(devices []int, v view) []int {
	if n := len(devices); n > 1 && f.Capabilities().Shards() > 1 {
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

// near replaces devices that were chosen by speed alone by as many with faster links. It needs a pool that knows the
// links, and free devices that are all alike.
func (f step) near(devices []int, v view) []int {
	closest := f.Pool.Capabilities().Closest
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

// idle returns how many devices are free.
func (v view) idle() (n int) {
	for d, rate := range v.rates {
		if rate > 0 && v.free[d] == 0 {
			n++
		}
	}
	return n
}

// pick returns n devices that are free, next to each other if it can be, as those of one host are; where there
// are not so many, some that are not free.
func (v view) pick(n int) []int {
	var idle, busy []int
	for d, rate := range v.rates {
		switch {
		case rate > 0 && v.free[d] == 0:
			idle = append(idle, d)
		case rate > 0:
			busy = append(busy, d)
		}
	}
	if len(idle) < n {
		return append(idle, busy[:n-len(idle)]...)
	}
	best, most, near := idle[:n], 0.0, false
	for i := 0; i+n <= len(idle); i++ {
		window, sum := idle[i:i+n], 0.0
		for _, d := range window {
			sum += v.rates[d]
		}
		together := window[n-1]-window[0] == n-1
		if together && !near || together == near && sum > most {
			best, most, near = window, sum, together
		}
	}
	return best
}

// without returns the view without some devices, or as it is where no other is left.
func (v view) without(devices []int) view {
	rates := slices.Clone(v.rates)
	for _, d := range devices {
		rates[d] = 0
	}
	if slices.Max(rates) > 0 {
		v.rates = rates
	}
	return v
}

// capped is the largest set of at most n and cap devices that the step runs on: a multiple of its shards, or one
// device. Where its weights are cut because they do not fit one device, that one fails in its turn.
func capped(s *stages.Step, n, cap int) int {
	unit := s.Capabilities().Shards()
	if n = min(n, cap); n < unit {
		return 1
	}
	return n / unit * unit
}
