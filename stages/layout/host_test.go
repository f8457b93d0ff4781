package layout

import (
	"testing"

	"latentbeam/stages/cost"
)

// TestHostWork: what the host works for an element is added where the device is its processors, and goes on beside another device.
func TestHostWork(t *testing.T) {
	for _, c := range []struct {
		work, host float64
		processors int
		want       float64
	}{
		{8, 0, 2, 2}, {8, 1, 2, 4}, {0, 1, 1, 4}, // 4 elements on a device of 16 FLOP/s
		{8, 1, 0, 2}, {8, 5, 0, 5},
	} {
		got, err := Seconds(cost.Estimate{Work: c.work, Host: c.host}, 4, []DeviceModel{{Rate: 16, Processors: c.processors}})
		if err != nil || got != c.want {
			t.Errorf("%+v: %g s, %v", c, got, err)
		}
	}
}
