package cuda

import (
	"strings"
	"testing"

	"latentbeam/kernels/cuda/kern"
)

// TestTooOld: TooOld gives a reason for exactly the devices for which there are no kernels: those below compute capability 7.5.
func TestTooOld(t *testing.T) {
	for arch := 50; arch < 130; arch++ {
		d := Device{Major: arch / 10, Minor: arch % 10}
		_, err := kern.Target(d.Major, d.Minor)
		if why := d.TooOld(); (why == "") != (err == nil) || why != "" && !strings.Contains(why, "needs 7.5") {
			t.Errorf("compute capability %d.%d: TooOld says %q, kern.Target %v", d.Major, d.Minor, why, err)
		}
	}
}
