package engine

import (
	"time"

	"latentbeam/kernels"
	"latentbeam/stages"
)

// metered wraps the set's devices in this process with counters. usage reads the counters. A device that
// computes asynchronously has its times only after the caller has waited for it.
func metered(set *stages.Set) (usage func() kernels.Usage) {
	meters := make([]*kernels.Metered, len(set.Devices))
	for i, dev := range set.Devices {
		meters[i] = kernels.NewMetered(dev)
		set.Devices[i] = meters[i]
	}
	return func() kernels.Usage {
		var sum kernels.Usage
		for _, m := range meters {
			sum.Add(m.Usage())
		}
		return sum
	}
}

// KernelTime sums the work of one family of operations for a stage, over all devices of this process.
type KernelTime struct {
	Kernel string        `json:"kernel"`
	Beside bool          `json:"beside,omitempty"` // done by the host while the device computed
	Calls  int64         `json:"calls"`
	Busy   time.Duration `json:"busy_ns"`
	FLOP   float64       `json:"flop,omitempty"` // of products
	Bytes  int64         `json:"bytes"`          // of operands
	Rate   float64       `json:"gflop_per_s,omitempty"`
	Moved  float64       `json:"gb_per_s"`
}

// kernelTimes lists the families that were called.
func kernelTimes(usage kernels.Usage) []KernelTime {
	var times []KernelTime
	for op, c := range usage {
		if c.Calls > 0 {
			busy := max(c.Time, 1).Seconds()
			times = append(times, KernelTime{Kernel: kernels.Op(op).String(), Beside: kernels.Op(op).IsBeside(), Calls: c.Calls,
				Busy: c.Time, FLOP: c.FLOP, Bytes: c.Bytes, Rate: c.FLOP / busy / 1e9, Moved: float64(c.Bytes) / busy / 1e9})
		}
	}
	return times
}

// peaks starts measuring the memory of devices. read returns the peak of each device since then; 0: the device cannot
// measure it.
func peaks(devices []kernels.Backend) (read func() []int64) {
	all := make([]func() int64, len(devices))
	for i, dev := range devices {
		if all[i] = dev.Capabilities().Peak; all[i] != nil {
			all[i]() // discards the earlier peak
		}
	}
	return func() []int64 {
		most := make([]int64, len(all))
		for i, peak := range all {
			if peak != nil {
				most[i] = peak()
			}
		}
		return most
	}
}
