package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"latentbeam/internal/engine/recovery"
	"latentbeam/internal/engine/schedule"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// errDropped is the error of a batch that was dropped after Stop.
var errDropped = errors.New("the job is stopping")

// resolve tries the elements until each has its result or its failure. It returns only errors that end the job, and
// errDropped.
func (s *Station) resolve(live []*stages.Element, passage *schedule.Passage) error {
	tries := s.engine.Recovery.Tries(s.index, live)
	for t := tries.Next(); t != nil; t = tries.Next() {
		if t.Pause > 0 && !s.pause(t.Pause) {
			return context.Cause(s.ctx)
		}
		r := s.attempt(t, passage)
		switch {
		case errors.Is(r.Err, errDropped):
			return r.Err
		case r.Err != nil && s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		}
		if err := tries.After(t, r); err != nil {
			return err
		}
	}
	return nil
}

// pause waits before another attempt. It returns false if the job ended meanwhile.
func (s *Station) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// attempt runs the stage once on leased devices. The schedule may combine the batch with other waiting batches.
func (s *Station) attempt(t *recovery.Try, passage *schedule.Passage) schedule.Attempt {
	waiting := s.engine.Board.Wait(s.step.Name, shapeOf(t.Live), len(t.Live), idsOf(t.Live))
	g, err := s.acquire(s.engine.Schedule.Turn(s.index, t.Live, t.Ask).WithPassage(passage))
	waiting.Finish(err)
	if err != nil {
		return schedule.Attempt{Elements: len(t.Live), Err: err}
	}
	if r, joined := g.LeaderOutcome(); joined {
		return r
	}
	return s.engine.Schedule.Release(g, s.work(g))
}

// acquire waits for the devices of a turn. If all devices are lost, it waits until the pool has one again or returns an error.
func (s *Station) acquire(turn *schedule.Turn) (*schedule.Grant, error) {
	for {
		g, err := s.engine.Schedule.Acquire(s.ctx, turn)
		if !errors.Is(err, schedule.ErrNoDevice) {
			return g, err
		}
		_, release, err := s.engine.Schedule.Pool.LeaseSet(s.ctx, 1)
		if err != nil {
			return nil, err
		}
		release(true)
	}
}

// work runs the stage on the devices of a grant. A panic becomes an error of the row. An error of a set may
// come from one of its devices, so the batch is retried on another set.
func (s *Station) work(g *schedule.Grant) (err error) {
	set, release, err := s.engine.Schedule.Pool.LeaseThese(s.ctx, g.Devices)
	if err != nil {
		return err
	}
	if s.engine.Schedule.Stopping() && s.mayDrop() {
		release(true)
		return errDropped
	}
	ctx, stop := set.WithHealth(s.ctx)
	defer stop()
	peak := peaks(set.Devices)
	began, usage := time.Now(), metered(set)
	ctx, batch := s.engine.follow(ctx, s.step.Name, set, g)
	set.Patience = s.engine.Schedule.Start(g)
	defer func() {
		if r := recover(); r != nil {
			slog.Debug("stage panicked", "stage", s.step.Name, "panic", r, "stack", string(debug.Stack()))
			err = fault.Row(fmt.Errorf("panic: %s", fault.PanicText(r)))
		}
		if why := set.HealthError(); why != nil { // whatever the stage returned
			err = why
		} else if err == nil {
			held := peak()
			batch.SetMemory(held)
			s.engine.Schedule.Measure(g, slices.Max(append(held, 0)))
		}
		release(err == nil)
		if err == nil {
			s.engine.Schedule.RecordTime(g, time.Since(began))
		}
		batch.Finish(err)
		s.engine.Progress.Spent(s.step.Name, time.Since(began))
		s.engine.Progress.Computed(s.step.Name, usage())
	}()
	set.Stay = s.engine.Recovery.Stays(s.step.Name)
	if s.engine.Schedule.Samples(s.index) {
		return s.sample(ctx, set, g.Live)
	}
	return s.compute(ctx, set, g.Live)
}

// sample runs the sampling stage and continues from saved steps. It removes saved steps that look wrong.
func (s *Station) sample(ctx context.Context, set *stages.Set, live []*stages.Element) error {
	e := s.engine
	left := e.Steps.resume(ctx, live)
	var err error
	if len(left) > 0 {
		set.Saving = e.Steps.saving()
		err = s.compute(ctx, set, left)
	}
	if err == nil {
		e.Steps.retain(live)
	}
	for _, el := range live {
		el.Begun = nil
		if isSuspicious(err, set.HealthError() != nil) || err == nil && el.Failed == nil && el.NotFinite(s.step.Gives) != "" {
			e.Steps.remove(s.ctx, el.Key)
		}
	}
	return err
}

// compute runs the stage on the set.
func (s *Station) compute(ctx context.Context, set *stages.Set, live []*stages.Element) error {
	err := RunStep(ctx, s.step, set, live)
	if err != nil && set.Ranks() > 1 && fault.ClassOf(err) == fault.ClassRow && !fault.IsNotFinite(err) {
		slog.Debug("set failed", "stage", s.step.Name, "devices", set.Ranks(), "error", err)
		err = fault.Retry(err)
	}
	return err
}
