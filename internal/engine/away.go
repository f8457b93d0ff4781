package engine

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/engine/coder"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// RunOn runs a stage for the elements on the set's devices in this process.
func RunOn(ctx context.Context, s stages.Stage, set *stages.Set, elements []*stages.Element) error {
	defer forgetRaw(elements)()
	spread := s.Capabilities().Spread
	switch {
	case set.Ranks() == 1 && (spread == nil || set.Saving == nil):
		return s.Run(ctx, set.Devices[0], elements)
	case spread == nil:
		return fmt.Errorf("the stage does not run on %d devices", set.Ranks())
	}
	return spread.Run(ctx, set, elements)
}

// forgetRaw returns a function to call after a stage: it drops the raw latents of elements whose latents the stage replaced.
func forgetRaw(elements []*stages.Element) func() {
	type latents struct{ model, raw *stages.Array }
	var before map[int]latents
	for i, e := range elements {
		if e.Latents != nil && e.RawLatents != nil {
			if before == nil {
				before = map[int]latents{}
			}
			before[i] = latents{e.Latents, e.RawLatents}
		}
	}
	return func() {
		for i, was := range before {
			if e := elements[i]; e.Latents != was.model && e.RawLatents == was.raw {
				e.RawLatents = nil
			}
		}
	}
}

// RunStep runs a step of a job for the elements on a set. The set's devices may be in other processes.
func RunStep(ctx context.Context, step *stages.Step, set *stages.Set, live []*stages.Element) error {
	if len(set.Remote) > 0 {
		return runAway(ctx, step, set, live)
	}
	return RunOn(ctx, step.Stage, set, live)
}

// runAway runs the step on a set with devices in other processes. The first error cancels all of them.
func runAway(ctx context.Context, step *stages.Step, set *stages.Set, live []*stages.Element) error {
	batch, err := coder.EncodeBatch(&stages.Batch{Elements: live})
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	try := func(do func() error) { all.Go(func() error { return recovered(do) }) }
	var result []byte
	saved := func(body []byte) error {
		rows, err := coder.DecodeSaved(body)
		if err == nil && set.Saving != nil {
			set.Saving.Save(context.WithoutCancel(ctx), rows) // the last steps arrive after ctx is canceled
		}
		return err
	}
	for _, a := range set.Remote {
		try(func() error {
			body, err := a.Do(ctx, step.Name, batch, saved)
			if a.Ranks[0] == 0 {
				result = body
			}
			return err
		})
	}
	if len(set.Devices) > 0 {
		try(func() error { return RunOn(ctx, step.Stage, set, live) })
	}
	if err := all.Wait(); err != nil || len(set.Devices) > 0 {
		return err
	}
	return replace(live, result)
}

// recovered calls do and returns its panic as an error.
func recovered(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %s", fault.PanicText(r))
		}
	}()
	return do()
}

// replace overwrites the elements with the results of another process.
func replace(live []*stages.Element, result []byte) error {
	answer, err := coder.DecodeBatch(result)
	if err != nil {
		return err
	}
	elements := answer.Elements
	if len(elements) != len(live) {
		return fmt.Errorf("a worker answered with %d elements for %d", len(elements), len(live))
	}
	for i, e := range elements {
		if e.Key != live[i].Key {
			return fmt.Errorf("a worker answered with element %s for %s", e.Key, live[i].Key)
		}
	}
	for i, e := range elements {
		*live[i] = *e
	}
	return nil
}
