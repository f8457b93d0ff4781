package bucket

import (
	"context"
	"testing"
	"time"
)

// settable is a clock that advances only when a test sets it, or by Pause.
type settable struct {
	wall
	now time.Time
}

func (c *settable) Now() time.Time                                 { return c.now }
func (c *settable) Pause(_ context.Context, d time.Duration) error { c.now = c.now.Add(d); return nil }

// TestPatience: a service may contradict itself contradictionsMax times, and for the time budget from its first contradiction. Time
// before that, such as a wait for a dead lock holder, does not count.
func TestPatience(t *testing.T) {
	clock := &settable{now: time.Unix(1000, 0)}
	b := New(nil, Address{}, Options{URL: "there", Clock: clock})
	p := b.patience()
	clock.now = clock.now.Add(10 * budget)
	for i := 1; ; i++ {
		err := p.waitRetry(t.Context(), "lock", "x", seenRefusedOwn)
		if err != nil && i != contradictionsMax || err == nil && i == contradictionsMax {
			t.Errorf("time %d of %d: %v", i, contradictionsMax, err)
		}
		if err != nil || i == contradictionsMax {
			break
		}
	}
	p = b.patience()
	for range 3 * contradictionsMax { // each time another version
		p.changed()
		if err := p.waitRetry(t.Context(), "lock", "x", seenOtherVersion); err != nil {
			t.Fatalf("an object that others change: %v", err)
		}
	}
	clock.now = clock.now.Add(budget)
	if err := p.waitRetry(t.Context(), "lock", "x", seenRefusedOwn); err == nil {
		t.Error("a service that contradicts itself is tried without a limit")
	}
}
