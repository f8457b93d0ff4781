package bucket

import (
	"context"
	"testing"
	"time"
)

// settable is a clock that stands still.
type settable struct {
	wall
	now time.Time
}

func (c *settable) Now() time.Time                                 { return c.now }
func (c *settable) Pause(_ context.Context, d time.Duration) error { c.now = c.now.Add(d); return nil }

// TestPatience: a service may contradict itself a few times for some time. What a call waits for before that, such as the holder of a
// lock that is dead, is not laid to the service.
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
	if err := p.waitRetry(t.Context(), "lock", "x", seenRefusedOwn); err != nil {
		t.Error(err)
	}
	clock.now = clock.now.Add(budget)
	if err := p.waitRetry(t.Context(), "lock", "x", seenRefusedOwn); err == nil {
		t.Error("a service that contradicts itself is asked for ever")
	}
}
