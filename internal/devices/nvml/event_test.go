package nvml

import (
	"encoding/json"
	"testing"
)

// TestActions: what is done about each event (ignore it, restart the work, drain the device), and its text.
func TestActions(t *testing.T) {
	for _, c := range []struct {
		event Event
		want  Action
		text  string
	}{
		{Event{Kind: XID, Code: 13}, Ignore, "XID 13 (exception of an application)"},
		{Event{Kind: XID, Code: 31}, Ignore, "XID 31 (memory page fault of an application)"},
		{Event{Kind: XID, Code: 43}, Ignore, "XID 43 (an application was stopped)"},
		{Event{Kind: XID, Code: 63}, Ignore, "XID 63 (a row of memory is replaced at the next reset)"},
		{Event{Kind: XID, Code: 94}, Restart, "XID 94 (contained memory error)"},
		{Event{Kind: XID, Code: 48}, Drain, "XID 48 (double-bit ECC error)"},
		{Event{Kind: XID, Code: 79}, Drain, "XID 79 (GPU has fallen off the bus)"},
		{Event{Kind: XID, Code: 147}, Drain, "XID 147 (NVLink error)"},
		{Event{Kind: XID, Code: 9999}, Drain, "XID 9999 (not in our list of XIDs)"},
		{Event{Kind: Uncorrected}, Drain, "uncorrectable ECC errors"},
		{Event{Kind: Lost}, Drain, "the GPU does not answer any more"},
	} {
		if got := c.event.Action(); got != c.want || c.event.String() != c.text {
			t.Errorf("got action %v for %q, want %v for %q", got, c.event, c.want, c.text)
		}
	}
}

// TestXIDsAreInOrder: the ranges of the table of XIDs ascend and do not overlap, so that each number has one meaning.
func TestXIDsAreInOrder(t *testing.T) {
	var last uint64
	for _, x := range xids {
		if x.first <= last || x.last < x.first || x.text == "" {
			t.Errorf("%+v comes after the XID %d", x, last)
		}
		last = x.last
	}
}

// TestThrottle: a set of reasons for lower clocks, as text and as JSON. Hurts reports whether one of them makes work slower.
func TestThrottle(t *testing.T) {
	for _, c := range []struct {
		set   Throttle
		hurts bool
		text  string
		json  string
	}{
		{0, false, "none", `[]`},
		{Idle, false, "idle", `["idle"]`},
		{PowerCap, true, "power limit", `["power limit"]`},
		{HeatHardware | HardwareSlow, true, "hardware slowdown, heat (hardware)",
			`["hardware slowdown","heat (hardware)"]`},
		{1 << 40, false, "none", `[]`},
	} {
		text, err := json.Marshal(c.set)
		if err != nil || c.set.Hurts() != c.hurts || c.set.String() != c.text || string(text) != c.json {
			t.Errorf("bits %b: got hurts %v, %q, %s, %v; want %v, %q, %s", uint64(c.set), c.set.Hurts(), c.set, text, err, c.hurts, c.text, c.json)
		}
	}
	// NVML's own numbers: nvmlClocksEventReasonSwPowerCap, HwThermalSlowdown, DisplayClockSetting.
	if PowerCap != 4 || HeatHardware != 64 || DisplayClocks != 256 {
		t.Errorf("the bits are %d, %d, %d, but NVML has 4, 64, 256", PowerCap, HeatHardware, DisplayClocks)
	}
}
