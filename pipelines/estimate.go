package pipelines

import (
	"context"
	"fmt"
	"slices"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// probeSteps is how many sampling steps an estimate runs; stages that depend on the number of steps are
// scaled up from there.
const probeSteps = 2

// Estimate is what a plan will cost.
type Estimate struct {
	Time time.Duration
	Disk int64 // bytes
	// Program is the stage that was not measured, nor those behind it, because it is a program, which only a run starts;
	// "": all were.
	Program string
	Buckets []BucketEstimate
}

// BucketEstimate is the cost of the new rows of one shape.
type BucketEstimate struct {
	Bucket
	Batch int           // rows a batch, from the memory plan
	Each  time.Duration // of one row on one worker
	Total time.Duration // of all rows on all workers
	Disk  int64         // bytes, of all rows
}

// Estimate measures one row of every shape of the plan, with few sampling steps, and scales it up. The
// results are thrown away.
func (j *Job) Estimate(ctx context.Context, p Plan) (Estimate, error) {
	var total Estimate
	if err := j.prepare(ctx, p); err != nil {
		return total, err
	}
	left := slices.Clone(p.Buckets)
	for e, err := range j.engine.Source.Rows(ctx, true) {
		if err != nil {
			return total, err
		}
		if err := j.engine.Rules.Apply(e); err != nil {
			return total, err
		}
		i := slices.IndexFunc(left, func(b Bucket) bool { return b.Shape == schemas.BucketOf(e.Row) })
		if e.Failed != nil || i < 0 {
			continue
		}
		b, err := j.estimate(ctx, left[i], e)
		if fault.ClassOf(err) == fault.ClassRow && err != nil {
			continue // this row will fail; another of its shape may not
		}
		if err != nil {
			return total, err
		}
		total.Program = j.Program()
		total.Time, total.Disk, total.Buckets = total.Time+b.Total, total.Disk+b.Disk, append(total.Buckets, b)
		if left = slices.Delete(left, i, i+1); len(left) == 0 {
			break
		}
	}
	return total, nil
}

// Program is the name of the first stage that is a program, "" where none is.
func (j *Job) Program() string {
	for _, s := range j.engine.Steps {
		if s.Spec.Program != nil {
			return s.Name
		}
	}
	return ""
}

// estimate measures one element of a bucket, up to the first stage that is a program.
func (j *Job) estimate(ctx context.Context, b Bucket, e *stages.Element) (est BucketEstimate, err error) {
	est.Bucket = b
	if est.Batch, err = j.engine.BatchSize(&e.Row); err != nil {
		return est, err
	}
	set, release, err := j.engine.Pool.LeaseSet(ctx, 1)
	if err != nil {
		return est, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fault.Row(fmt.Errorf("estimate: panic: %v", r))
		}
		release(err == nil)
	}()
	steps := e.Row.NumInferenceSteps
	e.Row.NumInferenceSteps = min(steps, probeSteps)
	for i := range j.engine.Steps {
		s, began := &j.engine.Steps[i], time.Now()
		if s.Spec.Program != nil {
			return est, nil
		}
		if err = engine.RunStep(ctx, s, set, []*stages.Element{e}); err != nil {
			return est, fmt.Errorf("estimate %s: %w", s.Name, err)
		}
		if e.Failed != nil && !s.Spec.Passive { // few steps make poor results, which a guard may reject
			return est, fault.Row(fmt.Errorf("estimate: %w", e.Failed))
		}
		e.Failed = nil
		took := time.Since(began)
		if slices.Contains(s.Spec.Params, stages.ParamSteps) {
			took = took * time.Duration(steps) / time.Duration(e.Row.NumInferenceSteps)
		}
		est.Each += took
	}
	est.Total = est.Each * time.Duration(b.Rows) / time.Duration(j.engine.Pool.Size())
	est.Disk = j.engine.Size(e) * b.Rows
	return est, nil
}
