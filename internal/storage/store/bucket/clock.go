package bucket

import (
	"context"
	"math/rand/v2"
	"time"
)

// Clock provides the time and waiting for a store. Tests replace it.
type Clock interface {
	Now() time.Time
	// Sleep waits for another process to act.
	Sleep(ctx context.Context, d time.Duration) error
	// Pause waits before a request is repeated.
	Pause(ctx context.Context, d time.Duration) error
	// Every calls f repeatedly until stop is called. f may still be running when stop returns.
	Every(d time.Duration, f func()) (stop func())
}

// wall is the clock of the machine.
type wall struct{}

// Now implements Clock.
func (wall) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (wall) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Pause implements Clock.
func (w wall) Pause(ctx context.Context, d time.Duration) error { return w.Sleep(ctx, d) }

// Every implements Clock.
func (wall) Every(d time.Duration, f func()) (stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f()
			}
		}
	}()
	return stop
}

// jitter returns a random duration between d/2 and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
