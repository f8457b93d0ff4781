//go:build cuda && linux

package cuda

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"latentbeam/schemas/fault"
)

// EnvPatience is the environment variable with the time limit for one call of the driver, such as 30m. After it the device
// counts as lost; 0 means no limit.
const EnvPatience = "LATENTBEAM_CUDA_PATIENCE"

const (
	// defaultPatience is far above the time of the longest call, a step of the sampler or a decoded clip: a minute on a small
	// GPU.
	defaultPatience = 10 * time.Minute
	// stuckChecks is the number of checks that must see the same call before it has taken too long. Checks are counted instead of
	// time, so that a process that was stopped for hours does not report a lost device when it continues.
	stuckChecks = 20
)

// patience returns the time limit that the environment sets.
func patience() (time.Duration, error) {
	text := os.Getenv(EnvPatience)
	if text == "" {
		return defaultPatience, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s=%s: give a time such as 30m, or 0 for no limit", EnvPatience, text)
	}
	return d, nil
}

// watchdog detects that the thread of an engine does not return from the driver.
type watchdog struct {
	turns atomic.Int64  // odd while the thread works
	stuck chan struct{} // closed when the thread is given up
}

// startWork and stopWork mark the start and the end of one piece of the thread's work.
func (w *watchdog) startWork() { w.turns.Add(1) }
func (w *watchdog) stopWork()  { w.turns.Add(1) }

// gaveUp reports whether the thread was given up.
func (w *watchdog) gaveUp() bool {
	select {
	case <-w.stuck:
		return true
	default:
		return false
	}
}

// watch gives the engine up if its thread takes longer than within for one piece of work. The thread itself cannot be ended: it
// stays in the driver, and all callers that wait for it get an error.
func (e *engine) watch(name string, within time.Duration) {
	if within == 0 {
		return
	}
	tick := time.NewTicker(within/stuckChecks + 1)
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
		if seen++; seen < stuckChecks {
			continue
		}
		err := fault.DeviceLost(fmt.Errorf("%s has not answered for %v (%s): it is not used any more", name, within, EnvPatience))
		e.fatalError.CompareAndSwap(nil, &err)
		close(e.stuck)
		return
	}
}
