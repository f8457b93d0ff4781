package clock

import (
	"testing"
	"time"
)

// TestJump: after Jump, the time of day of this process jumps forwards and backwards by more than a minute, and the monotonic clock does not.
func TestJump(t *testing.T) {
	if !Jump() {
		t.Skip("Jump works on linux/amd64 only")
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
			t.Fatalf("the monotonic clock jumped by %v, from %v to %v", d, last, now)
		}
		last = now
		time.Sleep(time.Millisecond)
	}
	if back < 3 || forth < 3 {
		t.Errorf("got %d jumps back and %d forward, want at least 3 of each", back, forth)
	}
}
