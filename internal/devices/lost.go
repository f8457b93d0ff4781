package devices

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"latentbeam/schemas/fault"
)

// A lost worker may return soon, because something restarts it. It is asked maxAsks times in a run, after
// pauses that double from askPause: about four minutes in total.
const (
	maxAsks = 7
	// askPause is slightly longer than the start of a process.
	askPause = 2 * time.Second
)

// lose marks a worker as lost, unless the job has ended, and returns an error of class retry.
func (f *Fleet) lose(ctx context.Context, h *host, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := slices.Contains(f.hosts, h); known && !h.lost && f.end.Err() == nil {
		h.lost, h.retrying = true, true
		slog.Warn("a worker does not answer: its batches are done elsewhere, and it is asked again", "address", h.addr,
			"why", err)
		f.asking.Go(func() { f.regain(h) })
		f.notifyWaiters()
	}
	return fault.Retry(fmt.Errorf("worker %s does not answer: %w", h.addr, err))
}

// regain asks a lost worker until it answers, was asked maxAsks times, or the fleet is closed.
func (f *Fleet) regain(h *host) {
	for back := false; !back; {
		f.mu.Lock()
		pause, last := askPause<<h.asked, h.asked >= maxAsks
		h.asked++
		if last {
			h.retrying = false
			f.notifyWaiters()
		}
		f.mu.Unlock()
		if last {
			slog.Warn("worker is given up", "address", h.addr)
			return
		}
		select {
		case <-time.After(pause):
		case <-f.end.Done():
			return
		}
		reply, err := f.handshake(f.end, h)
		if back = err == nil && len(reply.Speeds) == len(h.speeds); back {
			f.mu.Lock()
			h.lost, h.retrying, h.memory = false, false, reply.Memory
			f.notifyWaiters()
			f.mu.Unlock()
			slog.Info("worker is back", "address", h.addr)
		}
	}
}
