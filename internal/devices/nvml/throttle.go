package nvml

import (
	"encoding/json"
	"strings"
)

// Throttle is the set of reasons why clocks are below their maximum, with NVML's bits
// (nvmlClocksEventReason…).
type Throttle uint64

// The reasons.
const (
	Idle          Throttle = 1 << iota // nothing to do
	SetClocks                          // clocks set by a user
	PowerCap                           // the power limit
	HardwareSlow                       // hardware brake, for heat, power or a faulty supply
	SyncBoost                          // clocks of a synchronised group
	HeatSoftware                       // slowed by the driver, for heat
	HeatHardware                       // slowed by the hardware, for heat
	PowerBrake                         // slowed by the power supply
	DisplayClocks                      // clocks set for a display
	reasonCount   = iota
)

var reasonNames = [reasonCount]string{"idle", "clocks were set", "power limit", "hardware slowdown",
	"sync boost", "heat", "heat (hardware)", "power brake", "display"}

// hurting are the reasons that make the device slower than its specification.
const hurting = PowerCap | HardwareSlow | HeatSoftware | HeatHardware | PowerBrake

// Hurts reports whether the device is slower than its specification.
func (t Throttle) Hurts() bool { return t&hurting != 0 }

// Hurting returns the reasons that make it slower.
func (t Throttle) Hurting() Throttle { return t & hurting }

// Reasons returns the reasons in words; it omits unknown bits.
func (t Throttle) Reasons() []string {
	var out []string
	for i, name := range reasonNames {
		if t&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// String joins the reasons; "none": there are none.
func (t Throttle) String() string {
	if r := t.Reasons(); len(r) > 0 {
		return strings.Join(r, ", ")
	}
	return "none"
}

// MarshalJSON writes the reasons as a list of words.
func (t Throttle) MarshalJSON() ([]byte, error) {
	r := t.Reasons()
	if r == nil {
		r = []string{}
	}
	return json.Marshal(r)
}
