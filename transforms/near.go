package transforms

import "latentbeam/stages"

// near replaces devices that were chosen by their speed alone by as many that reach each other faster, where the
// pool knows that and all that are free are alike.
func (f *StageFn) near(devices []int, v view) []int {
	pool, ok := f.engine.Pool.(stages.Nearby)
	if !ok || len(devices) == 0 {
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
	return pool.Closest(idle, len(devices))
}
