package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"latentbeam/stages"
)

// Station is one stage at work in one bundle. It never waits for a device in silence: a batch is handed to a
// goroutine that leases a device, a bounded number is in flight, and finished batches come out of Put and Close, the
// only places where a runner takes them. So the stages of a job overlap although a bundle has one goroutine.
type Station struct {
	index    int
	engine   *Engine
	step     *stages.Step
	ctx      context.Context
	cancel   context.CancelCauseFunc
	results  chan outcome
	inFlight int
}

// nudgeEvery is how often a waiting stage lets those behind it emit.
const nudgeEvery = 200 * time.Millisecond

// outcome is a batch that has left the stage, or the error that ends the job; neither for a batch that
// was dropped after Stop.
type outcome struct {
	batch *stages.Batch
	err   error
}

// Station opens step number index of the job for one bundle; ctx is the bundle's.
func (e *Engine) Station(ctx context.Context, index int) *Station {
	f := &Station{index: index, engine: e, step: &e.Steps[index]}
	f.ctx, f.cancel = e.bundle(ctx)
	f.results = make(chan outcome, e.Limit(index))
	return f
}

// Put starts the batch and emits what has finished, waiting only while too much is in flight.
func (f *Station) Put(b *stages.Batch, emit func(*stages.Batch)) error {
	for f.inFlight >= f.engine.Limit(f.index) {
		if err := f.take(emit); err != nil {
			return err
		}
	}
	if len(b.Elements) > 0 {
		f.inFlight++
		results := f.results
		f.engine.running.Go(func() { results <- f.run(b) })
	}
	for {
		select {
		case o := <-f.results:
			if err := f.finish(o, emit); err != nil {
				return err
			}
		default:
			if len(b.Elements) == 0 {
				emit(b)
			}
			return nil
		}
	}
}

// Close waits for what is in flight and emits it.
func (f *Station) Close(emit func(*stages.Batch)) error {
	defer f.cancel(nil)
	for f.inFlight > 0 {
		if err := f.take(emit); err != nil {
			return err
		}
	}
	return nil
}

// take waits for a batch to finish. While it waits, it sends an empty batch down now and then: the stages
// behind it can emit only when they are called, and what they have finished should not wait for it.
func (f *Station) take(emit func(*stages.Batch)) error {
	select {
	case o := <-f.results:
		return f.finish(o, emit)
	case <-time.After(nudgeEvery):
		emit(&stages.Batch{})
		return nil
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
}

func (f *Station) finish(o outcome, emit func(*stages.Batch)) error {
	f.inFlight--
	if o.err != nil {
		f.cancel(o.err)
		return f.engine.Fail(o.err)
	}
	if o.batch != nil {
		emit(o.batch)
	}
	return nil
}

// run takes the batch through the stage. Only a fatal error comes back; anything else ends in Failed.
func (f *Station) run(b *stages.Batch) outcome {
	for _, e := range b.Live() {
		f.checkInput(e)
	}
	f.engine.Arrive(f.index, b)
	live := b.Live()
	if len(live) == 0 {
		return outcome{batch: b}
	}
	switch err := f.settle(live); {
	case errors.Is(err, errNotBegun):
		return outcome{}
	case err != nil:
		return outcome{err: err}
	}
	for _, e := range live {
		if !e.Has(f.step.Gives) {
			e.Fail(f.step.Name, fmt.Errorf("the stage gave no %s", f.step.Gives))
		}
		if e.Failed != nil || !f.neededLater(f.step.Spec.In) {
			e.Drop(f.step.Spec.In)
		}
		if f.index == len(f.engine.Steps)-1 && e.Video != nil {
			e.Video.Recon = nil // no stage is left to look at it
		}
	}
	return outcome{batch: b}
}

// checkInput fails an element that came from the source without what the stage takes, or with numbers that
// are none.
func (f *Station) checkInput(e *stages.Element) {
	if k := f.step.Spec.In; k != "" && !e.Has(k) {
		e.Fail("read", fmt.Errorf("no %s: %s", k, e.Unread))
	} else if f.index == 0 {
		if why := e.NotFinite(k); why != "" {
			e.Fail("read", errors.New(why))
		}
	}
}

// mayDrop reports whether a batch that has not begun this stage is dropped once the job is stopping. Up to
// the sampler little has been spent on it; behind it the batch is worth finishing.
func (f *Station) mayDrop() bool {
	for i, s := range f.engine.Steps {
		if slices.Contains(s.Spec.Params, stages.ParamSteps) {
			return f.index <= i
		}
	}
	return f.index == 0
}

// neededLater reports whether k is published or looked at by a later step; one that takes any kind, such
// as a guard, looks at everything.
func (f *Station) neededLater(k stages.Kind) bool {
	if k == f.step.Gives || f.engine.Keep[k] {
		return true
	}
	for _, s := range f.engine.Steps[f.index+1:] {
		if s.Spec.In == k || s.Spec.In == "" {
			return true
		}
	}
	return false
}
