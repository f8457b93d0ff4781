package clock

import (
	"testing"
	"time"
)

// TestJump: the time of day jumps forwards and backwards, and the monotonic clock does not.
func TestJump(t *testing.T) {
	if !Jump() {
		t.Skip("the clock of a process jumps on linux/amd64 alone")
	}
	began := time.Now()
	back, forth := 0, 0
	for last := began; time.Since(began) < 40*Every; {
		now := time.Now()
		switch apart := now.Round(0).Sub(last.Round(0)); { // without the monotonic reading
		case apart < -time.Minute:
			back++
		case apart > time.Minute:
			forth++
		}
		if d := now.Sub(last); d < 0 || d > 10*time.Second {
			t.Fatalf("%v passed from %v to %v", d, last, now)
		}
		last = now
		time.Sleep(time.Millisecond)
	}
	if back < 3 || forth < 3 {
		t.Errorf("%d jumps back and %d forward", back, forth)
	}
}
