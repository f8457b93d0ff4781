package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"latentbeam/internal/engine/recovery"
	"latentbeam/internal/engine/schedule"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// errNotBegun is why a batch is dropped after Stop.
var errNotBegun = errors.New("the job is stopping")

// settle tries the elements until each has its result or its failure. Only an error that ends the job comes back, or
// errNotBegun.
func (f *Station) settle(live []*stages.Element) error {
	tries := f.engine.Tries(f.index, live)
	for t := tries.Next(); t != nil; t = tries.Next() {
		if t.Pause > 0 && !f.pause(t.Pause) {
			return context.Cause(f.ctx)
		}
		r := f.attempt(t)
		switch {
		case errors.Is(r.Err, errNotBegun):
			return r.Err
		case r.Err != nil && f.ctx.Err() != nil:
			return context.Cause(f.ctx)
		}
		if err := tries.After(t, r); err != nil {
			return err
		}
	}
	return nil
}

// pause waits before another attempt; false means that the job ended meanwhile.
func (f *Station) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.ctx.Done():
		return false
	}
}

// attempt runs the stage once on leased devices; the batch may do so together with others that wait.
func (f *Station) attempt(t *recovery.Try) schedule.Result {
	g, err := f.acquire(f.engine.Turn(f.index, t.Live, t.Ask))
	if err != nil {
		return schedule.Result{Elements: len(t.Live), Err: err}
	}
	if r, taken := g.Taken(); taken {
		return r
	}
	return f.engine.Release(g, f.work(g))
}

// acquire waits for the devices of a turn, also where all are gone, until the pool says that none will be there again.
func (f *Station) acquire(turn *schedule.Turn) (*schedule.Grant, error) {
	for {
		g, err := f.engine.Acquire(f.ctx, turn)
		if !errors.Is(err, schedule.ErrNoDevice) {
			return g, err
		}
		_, release, err := f.engine.Pool.LeaseSet(f.ctx, 1)
		if err != nil {
			return nil, err
		}
		release(true)
	}
}

// work runs the stage on the devices of a grant. A panic is an error of the row that caused it; an error of a set may
// be one of its devices', so the batch is tried on another.
func (f *Station) work(g *schedule.Grant) (err error) {
	set, release, err := f.engine.Pool.LeaseThese(f.ctx, g.Devices)
	if err != nil {
		return err
	}
	if f.engine.Stopping() && f.mayDrop() {
		release(true)
		return errNotBegun
	}
	ctx, stop := set.Under(f.ctx)
	defer stop()
	peak := peaks(set.Devices)
	began, usage := time.Now(), metered(set)
	set.Patience = f.engine.Begin(g)
	defer func() {
		if r := recover(); r != nil {
			slog.Debug("stage panicked", "stage", f.step.Name, "panic", r, "stack", string(debug.Stack()))
			err = fault.Row(fmt.Errorf("panic: %s", panicText(r)))
		}
		if why := set.Ill(); why != nil { // whatever came of it
			err = why
		} else if err == nil {
			f.engine.Measure(g, peak())
		}
		release(err == nil)
		if err == nil {
			f.engine.Learn(g, time.Since(began))
		}
		f.engine.Progress.Spent(f.step.Name, time.Since(began))
		f.engine.Progress.Computed(f.step.Name, usage())
	}()
	set.Stay = f.engine.Stays(f.step.Name)
	err = RunStep(ctx, f.step, set, g.Live)
	if err != nil && set.Ranks() > 1 && fault.ClassOf(err) == fault.ClassRow && !fault.IsNotFinite(err) {
		slog.Debug("set failed", "stage", f.step.Name, "devices", set.Ranks(), "error", err)
		err = fault.Retry(err)
	}
	return err
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
