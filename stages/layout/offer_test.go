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
		t.Errorf("one host %+v, two %+v, links %d", one, two, Linked(16))
	}
	if l := Linked(16); l < 1<<30 || l > 2<<30 { // what people see of communicators is 1 to 2 GiB
		t.Errorf("a link of 16 ranks takes %d bytes", l)
	}
	if o := Offer(devices, 1<<40); o.Limit != 0 {
		t.Errorf("%+v beside weights that do not fit", o)
	}
}
