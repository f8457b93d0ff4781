package pipelines

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/launch"
	"latentbeam/pipelines/marks"
	"latentbeam/pipelines/record"
)

// running is a job whose rows are computed. compute gives the finished job.
type running struct {
	ctx      context.Context // it ends when somebody cancels the job, too
	engine   *engine.Engine
	launch   *launch.Launcher
	record   *record.Record
	report   *report.Job
	marks    *marks.Policy     // on published files
	foreseen forecast.Foreseen // before the run
	phases   *record.Phases
	lap      stopwatch
	result   Result // so far
	failed   error  // why rows were left
	next     *finished
}

// compute computes the rows, and writes tables and pages of what is done meanwhile. Where the run was cut off, or its output is
// gone, nothing is to be finished.
func (r *running) compute() (*finished, error) {
	end := r.writeEarly()
	r.failed = r.launch.Compute(r.ctx, r.result.Plan)
	end()
	r.lap.into(&r.phases.Rows)
	if r.ctx.Err() != nil {
		if errors.Is(r.failed, context.Canceled) {
			r.failed = nil // says the same
		}
		return nil, errors.Join(r.failed, context.Cause(r.ctx))
	}
	if errors.Is(r.failed, store.ErrRemoved) { // there is no place for a report
		return nil, r.failed
	}
	r.failed = errors.Join(r.failed, r.marks.Sign(r.ctx, r.launch.Away))
	return r.next, nil
}

// How often the report is written while a job runs: earlyEvery after the start and after each write, or earlyFactor
// times as long as that write took, whichever is later. They are variables for tests.
var (
	earlyEvery  = time.Minute
	earlyFactor = 50
)

// writeEarly writes tables and pages of what is done, again and again, until the function that it returns is called or
// ctx ends. On a cluster the submitter alone does it.
func (r *running) writeEarly() (end func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for again := earlyEvery; ; {
			wait := time.NewTimer(again)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return
			}
			began := time.Now()
			err := r.early(ctx, again)
			if err != nil && ctx.Err() == nil {
				slog.Warn("the tables and pages could not be written while the job runs; the end of the run writes them", "error", err)
			}
			took := time.Since(began)
			again = max(earlyEvery, time.Duration(earlyFactor)*took)
			slog.Debug("tables and pages were written while the job runs", "took", took, "again_in", again)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// early writes tables and pages once.
func (r *running) early(ctx context.Context, again time.Duration) error {
	if r.launch.Spread {
		if err := errors.Join(r.engine.Ledger.Refresh(ctx), r.engine.Book.Refresh(ctx)); err != nil {
			return err
		}
	}
	return r.report.WriteEarly(ctx, again)
}
