package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestDeviceErrors(t *testing.T) {
	base := errors.New("boom")
	for _, c := range []struct {
		name         string
		err          error
		memory, lost bool
		nan          bool
		class        Class
	}{
		{"none", nil, false, false, false, ClassRow},
		{"plain", base, false, false, false, ClassRow},
		{"memory", OutOfMemory(base), true, false, false, ClassRetry},
		{"lost", DeviceLost(base), false, true, false, ClassRetry},
		{"not finite", NotFinite(base), false, false, true, ClassRow},
		{"wrapped", fmt.Errorf("rank 2: %w", OutOfMemory(base)), true, false, false, ClassRetry},
		{"a step", fmt.Errorf("step 2 of 4: %w", NotFinite(base)), false, false, true, ClassRow},
		{"joined", errors.Join(base, DeviceLost(base)), false, true, false, ClassRetry},
		{"given up", Row(OutOfMemory(base)), true, false, false, ClassRow},
	} {
		if IsOutOfMemory(c.err) != c.memory || IsDeviceLost(c.err) != c.lost || IsNotFinite(c.err) != c.nan ||
			ClassOf(c.err) != c.class {
			t.Errorf("%s: memory %v, lost %v, not finite %v, class %v", c.name, IsOutOfMemory(c.err), IsDeviceLost(c.err),
				IsNotFinite(c.err), ClassOf(c.err))
		}
	}
	if OutOfMemory(nil) != nil || DeviceLost(nil) != nil || NotFinite(nil) != nil {
		t.Error("wrapping nil is not nil")
	}
	if err := OutOfMemory(base); err.Error() != "boom" || !errors.Is(err, base) {
		t.Errorf("wrapping changed the error: %v", err)
	}
}
