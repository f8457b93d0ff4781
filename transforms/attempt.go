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
// again, and an error or panic of a batch is narrowed down by running its elements alone.
func (f *StageFn) settle(live []*stages.Element) error {
	before := copies(live)
	var err error
	for try := range max(1, f.engine.Retries) {
		if try > 0 && !f.pause(retryPause<<(try-1)) {
			break
		}
		if err = f.attempt(live); err != nil {
			restore(live, before)
		}
		if fault.ClassOf(err) != fault.ClassRetry {
			break
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
		if err := f.settle([]*stages.Element{e}); err != nil {
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

// attempt runs the stage once on a leased device. A panic is an error of the row that caused it.
func (f *StageFn) attempt(live []*stages.Element) (err error) {
	done, err := f.engine.turns.acquire(f.ctx, f.Index, f.engine.Pool.Size())
	if err != nil {
		return err
	}
	defer done()
	dev, release, err := f.engine.Pool.Lease(f.ctx)
	if err != nil {
		return err
	}
	if f.engine.Stopping() && f.mayDrop() {
		release(true)
		return errNotBegun
	}
	began := time.Now()
	defer func() {
		if r := recover(); r != nil {
			slog.Debug("stage panicked", "stage", f.step.Name, "panic", r, "stack", string(debug.Stack()))
			err = fault.Row(fmt.Errorf("panic: %s", panicText(r)))
		}
		release(err == nil)
		f.engine.Progress.Spent(f.step.Name, time.Since(began))
	}()
	return f.step.Run(f.ctx, dev, live)
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
