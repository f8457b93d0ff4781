package fault

import (
	"errors"
	"fmt"
	"testing"
)

// TestDeviceErrors: the three marks of an error of a device (out of memory, device lost, not finite) are found in wrapped and in joined
// errors, and each gives the error its class.
func TestDeviceErrors(t *testing.T) {
	base := errors.New("boom")
	for _, c := range []struct {
		name         string
		err          error
		memory, lost bool // wanted from IsOutOfMemory and IsDeviceLost
		notFinite    bool // wanted from IsNotFinite
		class        Class
	}{
		{"none", nil, false, false, false, ClassRow},
		{"plain", base, false, false, false, ClassRow},
		{"memory", OutOfMemory(base), true, false, false, ClassRetry},
		{"lost", DeviceLost(base), false, true, false, ClassRetry},
		{"not finite", NotFinite(base), false, false, true, ClassRow},
		{"wrapped", fmt.Errorf("rank 2: %w", OutOfMemory(base)), true, false, false, ClassRetry},
		{"not finite, wrapped", fmt.Errorf("step 2 of 4: %w", NotFinite(base)), false, false, true, ClassRow},
		{"joined", errors.Join(base, DeviceLost(base)), false, true, false, ClassRetry},
		{"memory, made an error of the row", Row(OutOfMemory(base)), true, false, false, ClassRow},
	} {
		memory, lost, notFinite, class := IsOutOfMemory(c.err), IsDeviceLost(c.err), IsNotFinite(c.err), ClassOf(c.err)
		if memory != c.memory || lost != c.lost || notFinite != c.notFinite || class != c.class {
			t.Errorf("%s: got memory %v, lost %v, not finite %v, class %v; want %v, %v, %v, %v", c.name, memory, lost, notFinite, class,
				c.memory, c.lost, c.notFinite, c.class)
		}
	}
	if OutOfMemory(nil) != nil || DeviceLost(nil) != nil || NotFinite(nil) != nil {
		t.Error("wrapping nil is not nil")
	}
	if err := OutOfMemory(base); err.Error() != "boom" || !errors.Is(err, base) {
		t.Errorf("wrapping changed the error: %v", err)
	}
}
