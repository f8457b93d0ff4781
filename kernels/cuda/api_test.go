package cuda

import (
	"strings"
	"testing"

	"latentbeam/kernels/cuda/kern"
)

// TestTooOld: exactly the devices without kernels are too old.
func TestTooOld(t *testing.T) {
	for arch := 50; arch < 130; arch++ {
		d := Device{Major: arch / 10, Minor: arch % 10}
		_, err := kern.Target(d.Major, d.Minor)
		if why := d.TooOld(); (why == "") != (err == nil) || why != "" && !strings.Contains(why, "needs 7.5") {
			t.Errorf("compute capability %d.%d: %q, %v", d.Major, d.Minor, why, err)
		}
	}
}
