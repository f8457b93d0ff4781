package layout

import (
	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// Seconds predicts the time of a batch of k elements on a set of devices. Streaming blocks overlaps with computation.
func Seconds(s cost.Estimate, k int, devices []DeviceModel) (float64, error) {
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

// compute is Seconds without streaming.
func (s estimate) compute(k int, devices []DeviceModel) (float64, error) {
	if s.Split != nil {
		step, err := Cheapest(*s.Split, k, devices)
		return float64(s.Split.Steps) * step.Seconds(), err
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
	return max(float64(k)*s.Work*longest/float64(pieces), starting(s.Calls, devices[:1])/float64(min(pieces, len(devices)))), err
}

// starting returns how long the slowest device needs to start the kernels.
func starting(calls int64, devices []DeviceModel) (seconds float64) {
	for _, d := range devices {
		seconds = max(seconds, float64(calls)*d.Call)
	}
	return seconds
}

// batch returns the shape of an evaluation of k elements.
func (s sharing) batch(k int) sequence.Shape {
	shape := s.Shape
	shape.Batch *= k
	return shape
}
