package pipelines

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// How often the report is written while a job runs: earlyEvery after the start and after each write, or earlyFactor
// times as long as that write took, whichever is later. They are variables for tests.
var (
	earlyEvery  = time.Minute
	earlyFactor = 50
)

// writeEarly writes tables and pages of what is done, again and again, until the function that it returns is called or
// ctx ends. On a cluster the submitter alone does it.
func (j *Job) writeEarly(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
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
			err := j.early(ctx, again)
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
func (j *Job) early(ctx context.Context, again time.Duration) error {
	if j.spread() {
		if err := errors.Join(j.engine.Ledger.Refresh(ctx), j.engine.Book.Refresh(ctx)); err != nil {
			return err
		}
	}
	return j.report.WriteEarly(ctx, again)
}
