package layout

import (
	"slices"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// Seconds predicts the time of a batch of k elements on a set of devices. Streaming blocks overlaps with computation.
func Seconds(s cost.Estimate, k int, devices []DeviceModel) (float64, error) {
	s = priced(s, devices)
	seconds, err := estimate(s).compute(k, devices)
	if s.Passing > 0 {
		for _, d := range devices {
			seconds = max(seconds, s.Passing/d.Host)
		}
	}
	if host := float64(k) * s.Host; host > 0 && len(devices) > 0 {
		if n := devices[0].Processors; n > 0 { // the same processors compute and do the host's work
			seconds += host / float64(n)
		} else {
			seconds = max(seconds, host/hostProcessors)
		}
	}
	return seconds, err
}

// compute is Seconds without streaming and without the host's work.
func (s estimate) compute(k int, devices []DeviceModel) (float64, error) {
	if s.Split != nil {
		f, err := step(*s.Split, k, devices)
		return float64(s.Split.Steps) * f.Seconds(), err
	}
	if s.Grid.Shards() > 1 && len(devices) == s.Grid.Ranks() { // groups of elements pass through a pipeline, splits are even
		var rate float64
		for _, d := range devices {
			rate += d.Rate
		}
		return float64(k) * s.Work / rate, nil
	}
	pieces := max(1, s.Pieces)
	shares, err := sequence.Cut(pieces, rates(devices))
	longest := 0.0
	for i, share := range shares {
		longest = max(longest, float64(share.Len())/devices[i].Rate)
	}
	return max(float64(k)*s.Work*longest/float64(pieces), starting(s.Kernels.Calls, devices[:1])/float64(min(pieces, len(devices)))), err
}

// priceOf returns the prices of the devices for these kernels; nil if the devices have none, or the kernels are unknown.
func priceOf(k cost.Kernels, devices []DeviceModel) *cost.Kernels {
	if len(devices) == 0 || k == (cost.Kernels{}) {
		return nil
	}
	return devices[0].Price
}

// priced returns the estimate with Work in FLOP at the rate of the devices, if their kernels have prices.
func priced(s cost.Estimate, devices []DeviceModel) cost.Estimate {
	if price := priceOf(s.Kernels, devices); price != nil {
		s.Work = s.Kernels.At(*price)
	}
	return s
}

// step predicts a step like Cheapest. Devices with prices get the rate that they reach in its kernels; that rate does not change
// which partition is chosen.
func step(s cost.Split, k int, devices []DeviceModel) (Forward, error) {
	price := priceOf(s.Kernels, devices)
	if price == nil {
		return Cheapest(s, k, devices)
	}
	reached := float64(s.Pairs) * s.Shape.Total(s.Costs) / s.Kernels.At(*price)
	devices = slices.Clone(devices)
	for i := range devices {
		devices[i].Rate *= reached
	}
	return Cheapest(s, k, devices)
}

// starting returns the seconds that the slowest device needs to start the kernels.
func starting(calls float64, devices []DeviceModel) (seconds float64) {
	for _, d := range devices {
		seconds = max(seconds, calls*d.Call)
	}
	return seconds
}

// batch returns the shape of an evaluation of k elements.
func (s sharing) batch(k int) sequence.Shape {
	shape := s.Shape
	shape.Batch *= k
	return shape
}
