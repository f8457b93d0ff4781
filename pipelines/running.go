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

// running is a job whose rows are being computed. Its method compute returns the finished job.
type running struct {
	ctx      context.Context // also canceled when a user cancels the job in its output
	engine   *engine.Engine
	launch   *launch.Launcher
	record   *record.Record
	report   *report.Job
	marks    *marks.Policy     // marks of published files
	foreseen forecast.Foreseen // forecast made before the run
	phases   *record.Phases
	lap      stopwatch
	result   Result // so far
	failed   error  // why rows are not settled
	next     *finished
}

// compute computes the rows. Meanwhile it writes tables and pages of the rows that are done. If the run was canceled or its output
// was removed, it returns an error and no finished job.
func (r *running) compute() (*finished, error) {
	stop := r.startWriting()
	r.failed = r.launch.Compute(r.ctx, r.result.Plan)
	stop()
	r.lap.addTo(&r.phases.Rows)
	if r.ctx.Err() != nil {
		if errors.Is(r.failed, context.Canceled) {
			r.failed = nil // the cause of ctx below is more precise
		}
		return nil, errors.Join(r.failed, context.Cause(r.ctx))
	}
	if errors.Is(r.failed, store.ErrRemoved) { // a report cannot be written
		return nil, r.failed
	}
	r.failed = errors.Join(r.failed, r.marks.Sign(r.ctx, r.launch.Away))
	return r.next, nil
}

// While a job runs, the report is written every earlyEvery. After a slow write the pause is longer: earlyFactor times the
// duration of the write. They are variables so that tests can change them.
var (
	earlyEvery  = time.Minute
	earlyFactor = 50
)

// startWriting starts a goroutine that writes tables and pages of the finished rows at intervals. It ends when stop is called
// or ctx is canceled; stop waits for it. On a cluster only the submitter does this.
func (r *running) startWriting() (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for again := earlyEvery; ; {
			wait := time.NewTimer(again)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return
			}
			began := time.Now()
			err := r.writeOnce(ctx, again)
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
		<-done
	}
}

// writeOnce writes the tables and pages once. again is the time until the next write, for the pages.
func (r *running) writeOnce(ctx context.Context, again time.Duration) error {
	if r.launch.Spread {
		if err := errors.Join(r.engine.Ledger.Refresh(ctx), r.engine.Book.Refresh(ctx)); err != nil {
			return err
		}
	}
	return r.report.WriteEarly(ctx, again)
}
