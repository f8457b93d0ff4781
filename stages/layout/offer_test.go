package layout

import "testing"

// TestOffer: devices of several hosts reserve memory for their links, devices of one host do not; both reserve the memory of
// the weights.
func TestOffer(t *testing.T) {
	devices, err := ParseDevices("8xH100/8xH100")
	if err != nil {
		t.Fatal(err)
	}
	const weights = 9 << 30
	one, two := Offer(devices[:8], weights), Offer(devices, weights)
	if one.Limit-two.Limit != Linked(16) || two.Target != two.Limit/2 || one.Limit != devices[0].room()-weights {
		t.Errorf("got %+v on one host and %+v on two, want limits that differ by %d bytes for links", one, two, Linked(16))
	}
	if l := Linked(16); l < 1<<30 || l > 2<<30 { // people report communicators of 1 to 2 GiB
		t.Errorf("got %d bytes for the links of 16 ranks, want 1 to 2 GiB", l)
	}
	if o := Offer(devices, 1<<40); o.Limit != 0 {
		t.Errorf("got %+v beside weights that do not fit, want a limit of 0", o)
	}
}
