package transforms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	"latentbeam/internal/fault"
	"latentbeam/stages"
)

// settle runs the elements until each has its result or its failure: errors of the world are tried
// again, a set of devices that failed is tried smaller, and an error or panic of a batch is narrowed down by
// running its elements alone. Where a device runs out of memory, the batch goes on in halves, then on more
// devices (see learned). cap bounds the devices; 0: not.
func (f *StageFn) settle(live []*stages.Element, cap int) error {
	if n := f.engine.learned.fits(f.step, &live[0].Row, len(live)); n < len(live) {
		return f.settleParts(live, n, cap)
	}
	before := copies(live)
	var err error
	last := max(1, f.engine.Retries) - 1
	for try := 0; try <= last; try++ {
		if try > 0 && !f.pause(retryPause<<(try-1)) {
			break
		}
		var width int
		if width, err = f.attempt(live, cap); err != nil {
			restore(live, before)
		}
		if fault.IsOutOfMemory(err) && f.relieve(live, width) {
			return f.settle(live, 0)
		}
		if fault.ClassOf(err) != fault.ClassRetry || fault.IsOutOfMemory(err) {
			break
		}
		if cap = max(1, width-1); try == last-1 {
			cap = 1
		}
	}
	switch {
	case err == nil, errors.Is(err, errNotBegun):
		return err
	case f.ctx.Err() != nil:
		return context.Cause(f.ctx)
	case fault.ClassOf(err) == fault.ClassFatal:
		return fmt.Errorf("%s: %w", f.step.Name, err)
	case len(live) == 1:
		live[0].Fail(f.step.Name, err)
		return nil
	}
	for _, e := range live {
		if err := f.settle([]*stages.Element{e}, 1); err != nil {
			return err
		}
	}
	return nil
}

// pause waits before another attempt; false means that the job ended meanwhile.
func (f *StageFn) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.ctx.Done():
		return false
	}
}

// copies notes the elements as they are before a stage: it may be in the middle of them when it fails.
func copies(live []*stages.Element) []stages.Element {
	out := make([]stages.Element, len(live))
	for i, e := range live {
		out[i] = *e
		out[i].Readings = maps.Clone(e.Readings)
	}
	return out
}

// restore undoes what a failed attempt did to the elements.
func restore(live []*stages.Element, before []stages.Element) {
	for i, e := range live {
		*e = before[i]
		e.Readings = maps.Clone(before[i].Readings)
	}
}

// attempt runs the stage once on leased devices, as many as it returns. A panic is an error of the row that
// caused it; an error of a set may be one of its devices', so the batch is tried on another.
func (f *StageFn) attempt(live []*stages.Element, cap int) (width int, err error) {
	row := &live[0].Row
	least, most := f.width(row, len(live), cap)
	width, done, err := f.engine.turns.acquire(f.ctx, f.Index, f.engine.Pool.Size(), least, most)
	if err != nil {
		return width, err
	}
	defer done()
	set, release, err := f.engine.Pool.LeaseSet(f.ctx, width)
	if err != nil {
		return width, err
	}
	if f.engine.Stopping() && f.mayDrop() {
		release(true)
		return width, errNotBegun
	}
	ctx, stop := set.Under(f.ctx)
	defer stop()
	peak := peaks(set.Devices)
	began, usage := time.Now(), metered(set)
	cost := f.engine.forecast.cost(f.Index, f.step, row)
	ended := f.engine.forecast.begin(f.Index, width, f.engine.forecast.seconds(f.Index, cost, len(live), width))
	defer func() {
		if r := recover(); r != nil {
			slog.Debug("stage panicked", "stage", f.step.Name, "panic", r, "stack", string(debug.Stack()))
			err = fault.Row(fmt.Errorf("panic: %s", panicText(r)))
		}
		if why := set.Ill(); why != nil { // whatever came of it
			err = why
		} else if err == nil {
			f.measured(live, width, peak())
		}
		ended(err == nil)
		release(err == nil)
		f.engine.Progress.Spent(f.step.Name, time.Since(began))
		f.engine.Progress.Computed(f.step.Name, usage())
	}()
	if len(set.Away) > 0 {
		err = f.runAway(ctx, set, live)
	} else {
		err = RunOn(ctx, f.step.Stage, set, live)
	}
	if err != nil && set.Ranks() > 1 && fault.ClassOf(err) == fault.ClassRow {
		slog.Debug("set failed", "stage", f.step.Name, "devices", set.Ranks(), "error", err)
		err = fault.Retry(err)
	}
	return width, err
}

// panicText is what a failure says of a panic: nothing that another run would say differently, such as an
// address.
func panicText(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprintf("a value of type %T", v)
}
