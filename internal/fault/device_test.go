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
		class        Class
	}{
		{"none", nil, false, false, ClassRow},
		{"plain", base, false, false, ClassRow},
		{"memory", OutOfMemory(base), true, false, ClassRetry},
		{"lost", DeviceLost(base), false, true, ClassRetry},
		{"wrapped", fmt.Errorf("rank 2: %w", OutOfMemory(base)), true, false, ClassRetry},
		{"joined", errors.Join(base, DeviceLost(base)), false, true, ClassRetry},
		{"given up", Row(OutOfMemory(base)), true, false, ClassRow},
	} {
		if IsOutOfMemory(c.err) != c.memory || IsDeviceLost(c.err) != c.lost || ClassOf(c.err) != c.class {
			t.Errorf("%s: memory %v, lost %v, class %v", c.name, IsOutOfMemory(c.err), IsDeviceLost(c.err),
				ClassOf(c.err))
		}
	}
	if OutOfMemory(nil) != nil || DeviceLost(nil) != nil {
		t.Error("wrapping nil is not nil")
	}
	if err := OutOfMemory(base); err.Error() != "boom" || !errors.Is(err, base) {
		t.Errorf("wrapping changed the error: %v", err)
	}
}
