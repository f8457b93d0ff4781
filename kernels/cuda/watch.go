//go:build cuda && linux

package cuda

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"latentbeam/schemas/fault"
)

// EnvPatience is how long the driver may take for one call, such as 30m, before its device counts as lost; 0 is for
// ever.
const EnvPatience = "LATENTBEAM_CUDA_PATIENCE"

const (
	// defaultPatience is well above the longest work that is waited for in one call, a step of the sampler or a
	// decoded clip: a minute on a small GPU.
	defaultPatience = 10 * time.Minute
	// looks is how often a call is seen under way before it has taken too long. They are counted, and not the time,
	// so that a process that was stopped for hours accuses no device when it goes on.
	looks = 20
)

// patience is what the environment says.
func patience() (time.Duration, error) {
	text := os.Getenv(EnvPatience)
	if text == "" {
		return defaultPatience, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s=%s: give a time such as 30m, or 0 for no end", EnvPatience, text)
	}
	return d, nil
}

// watchdog notices that the thread of an engine does not come back from the driver.
type watchdog struct {
	turns atomic.Int64  // odd while the thread is at work
	stuck chan struct{} // closed when it is given up
}

// begin and end frame a piece of the thread's work.
func (w *watchdog) begin() { w.turns.Add(1) }
func (w *watchdog) end()   { w.turns.Add(1) }

// gaveUp reports whether the thread was given up.
func (w *watchdog) gaveUp() bool {
	select {
	case <-w.stuck:
		return true
	default:
		return false
	}
}

// watch gives the engine up when its thread is longer than within at one piece of work. The thread itself cannot be
// ended: it stays in the driver, and everybody who waits for it gets an error.
func (e *engine) watch(name string, within time.Duration) {
	if within == 0 {
		return
	}
	tick := time.NewTicker(within/looks + 1)
	defer tick.Stop()
	var last int64
	seen := 0
	for {
		select {
		case <-e.ended:
			return
		case <-tick.C:
		}
		now := e.turns.Load()
		if now%2 == 0 || now != last {
			last, seen = now, 0
			continue
		}
		if seen++; seen < looks {
			continue
		}
		err := fault.DeviceLost(fmt.Errorf("%s has not answered for %v (%s): it is left to itself", name, within, EnvPatience))
		e.broken.CompareAndSwap(nil, &err)
		close(e.stuck)
		return
	}
}
