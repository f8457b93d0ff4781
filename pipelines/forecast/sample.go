package forecast

import (
	"context"
	"fmt"
	"slices"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

const (
	// probeSteps is the number of sampling steps of a sample.
	probeSteps = 2
	// longSample is the predicted time above which the samples of a job are not computed.
	longSample = 30 * time.Second
)

// Sample holds the sizes of rows on disk.
type Sample struct {
	Disk map[schemas.Bucket]int64 // bytes of a row of each shape
	Not  string                   // why no sample was computed; "": it was
}

// Sample computes one row of every shape with few sampling steps, measures its size, and discards it.
func (j *Predictor) Sample(ctx context.Context, w Work, f Prediction) (Sample, error) {
	all := Sample{Disk: map[schemas.Bucket]int64{}}
	if all.Not = j.unsampled(f); all.Not != "" {
		return all, nil
	}
	if err := j.Prepare(ctx, w); err != nil {
		return all, err
	}
	left := slices.Clone(w.Buckets)
	for e, err := range j.Engine.Source.Rows(ctx, true) {
		if err != nil {
			return all, err
		}
		if err := j.Engine.Rules.Apply(e); err != nil {
			return all, err
		}
		i := slices.IndexFunc(left, func(b BucketRows) bool { return b.Shape == schemas.BucketOf(e.Row) })
		if e.Failed != nil || i < 0 {
			continue
		}
		size, err := j.sample(ctx, e)
		if fault.ClassOf(err) == fault.ClassRow && err != nil {
			continue // this row fails, but another row of its shape may not
		}
		if err != nil {
			return all, err
		}
		all.Disk[left[i].Shape] = size
		if left = slices.Delete(left, i, i+1); len(left) == 0 {
			break
		}
	}
	return all, nil
}

// unsampled returns the reason not to compute a sample; "": none.
func (j *Predictor) unsampled(f Prediction) string {
	if program := stages.FirstProgram(j.Engine.Schedule.Steps); program != "" {
		return fmt.Sprintf("stage %s is a program, which only a run starts", program)
	}
	took := 0.0
	for _, l := range f.Layouts {
		for _, s := range l.Stages {
			one, err := layout.Seconds(onFew(s), 1, f.Devices[:1])
			if err == nil {
				took += one
			}
		}
	}
	if seconds(took) > longSample {
		return fmt.Sprintf("to compute one row of each shape with %d steps takes %v", probeSteps, seconds(took).Round(time.Second))
	}
	return ""
}

// onFew returns the cost of a stage with probeSteps steps.
func onFew(s cost.Estimate) cost.Estimate {
	if s.Split != nil && s.Split.Steps > probeSteps {
		few := *s.Split
		few.Steps = probeSteps
		s.Split = &few
	}
	return s
}

// sample computes one element and returns its size in bytes.
func (j *Predictor) sample(ctx context.Context, e *stages.Element) (size int64, err error) {
	set, release, err := j.Engine.Schedule.Pool.LeaseSet(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fault.Row(fmt.Errorf("sample: panic: %v", r))
		}
		release(err == nil)
	}()
	e.Row.NumInferenceSteps = min(e.Row.NumInferenceSteps, probeSteps)
	for i := range j.Engine.Schedule.Steps {
		s := &j.Engine.Schedule.Steps[i]
		if err = engine.RunStep(ctx, s, set, []*stages.Element{e}); err != nil {
			return 0, fmt.Errorf("sample %s: %w", s.Name, err)
		}
		if e.Failed != nil && !s.Spec.Passive { // few steps make poor results, which a guard may reject
			return 0, fault.Row(fmt.Errorf("sample: %w", e.Failed))
		}
		e.Failed = nil
	}
	return j.Engine.Size(e), nil
}
