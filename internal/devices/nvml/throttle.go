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
	SetClocks                          // somebody has set the clocks
	PowerCap                           // the power limit
	HardwareSlow                       // hardware brake, for heat, power or a faulty supply
	SyncBoost                          // the clocks of a group
	HeatSoftware                       // the driver, for heat
	HeatHardware                       // the hardware, for heat
	PowerBrake                         // the power supply
	DisplayClocks                      // a display
	reasonCount   = iota
)

var reasonNames = [reasonCount]string{"idle", "clocks were set", "power limit", "hardware slowdown",
	"sync boost", "heat", "heat (hardware)", "power brake", "display"}

// hurting are the reasons that make work slower than the machine promises.
const hurting = PowerCap | HardwareSlow | HeatSoftware | HeatHardware | PowerBrake

// Hurts reports whether the device works slower than it could.
func (t Throttle) Hurts() bool { return t&hurting != 0 }

// Hurting returns the reasons for which it does.
func (t Throttle) Hurting() Throttle { return t & hurting }

// Reasons returns the reasons in words; bits that are not known are left out.
func (t Throttle) Reasons() []string {
	var out []string
	for i, name := range reasonNames {
		if t&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// String joins the reasons, "none" without any.
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
