package schedule

import (
	"slices"

	"latentbeam/stages"
)

// place replaces the chosen devices by equally many better ones. A set with sharded weights always uses the same devices, so
// that each loads one shard only. Any other set uses devices with fast links.
func (f step) place(devices []int, v view) []int {
	if n := len(devices); n > 1 && f.Capabilities().Shards() > 1 {
		if block := v.block(n); block != nil {
			return block
		}
	}
	return f.near(devices, v)
}

// block returns n consecutive devices whose first index is a multiple of n, the block that is free soonest; nil: every
// block has a lost device.
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

// near replaces devices that were chosen by speed alone by equally many with faster links. It changes nothing if the pool
// does not know the links, or if the free devices have different speeds.
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
			return devices // a chosen device is still busy
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

// pick returns n free devices, consecutive ones if possible, because devices of one host are consecutive. If fewer than n are
// free, it adds busy ones.
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

// without returns the view without some devices, or the unchanged view if no others are left.
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

// capped returns the size of the largest set, up to n and cap, that the step can run on: a multiple of its shards, or one
// device. If the weights do not fit one device, the attempt on one device fails and is handled as such.
func capped(s *stages.Step, n, cap int) int {
	unit := s.Capabilities().Shards()
	if n = min(n, cap); n < unit {
		return 1
	}
	return n / unit * unit
}
