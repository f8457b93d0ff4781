package buckettest

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is a clock for several stores that advances only while a store sleeps. Heartbeats run inside Sleep, one after another,
// so that none is late because this machine is busy. Pauses take no time.
type Clock struct {
	sleep sync.Mutex // held while the clock advances

	mu      sync.Mutex
	now     time.Time
	tickers []*ticker
}

type ticker struct {
	next   time.Time
	period time.Duration
	f      func()
}

// NewClock returns a clock.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now implements bucket.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pause implements bucket.Clock.
func (c *Clock) Pause(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// Every implements bucket.Clock.
func (c *Clock) Every(d time.Duration, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &ticker{c.now.Add(d), d, f}
	c.tickers = append(c.tickers, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tickers = slices.DeleteFunc(c.tickers, func(other *ticker) bool { return other == t })
	}
}

// Sleep implements bucket.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.sleep.Lock()
	defer c.sleep.Unlock()
	until := c.Now().Add(d)
	for f := c.move(until); f != nil; f = c.move(until) {
		f()
	}
	return ctx.Err()
}

// move advances the clock to the next heartbeat and returns it, nil if it has reached until.
func (c *Clock) move(until time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *ticker
	for _, t := range c.tickers {
		if !t.next.After(until) && (first == nil || t.next.Before(first.next)) {
			first = t
		}
	}
	if first == nil {
		c.now = until
		return nil
	}
	if first.next.After(c.now) {
		c.now = first.next
	}
	first.next = c.now.Add(first.period)
	return first.f
}

// Mortal is the clock of one store that can die.
type Mortal struct {
	*Clock
	mu   sync.Mutex
	stop []func()
}

// Every implements bucket.Clock.
func (m *Mortal) Every(d time.Duration, f func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stop = m.Clock.Every(d, f)
	m.stop = append(m.stop, stop)
	return stop
}

// Die stops all heartbeats of the store, and advances the time until others notice.
func (m *Mortal) Die() {
	m.mu.Lock()
	for _, stop := range m.stop {
		stop()
	}
	m.mu.Unlock()
	_ = m.Sleep(context.Background(), time.Minute)
}
