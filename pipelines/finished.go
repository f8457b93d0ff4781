package pipelines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/report"
	"latentbeam/pipelines/hardware"
	"latentbeam/pipelines/output"
	"latentbeam/pipelines/record"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// finished is a job that has computed all rows that it could. Its tables, pages and summary are not written yet.
type finished struct {
	run      *running
	output   *output.Output
	machines hardware.Machines
	limit    int
	version  string
	model    string
	terms    []stages.Terms   // licence terms of its weights
	weights  map[string]int64 // bytes by stage
	config   []byte           // configuration as canonical JSON
	began    time.Time
	lost     int // number of damaged ledger records known at the start
}

// write writes the report. It also writes it after a failure, so that a user can see the rows that are done.
func (f *finished) write() (Result, error) {
	ctx, r := f.run.ctx, &f.run.result
	workers := f.fillResult()
	f.run.record.Writing()
	err := f.tables(ctx, workers)
	if f.run.failed == nil && !r.Interrupted {
		r.lost, r.damaged = f.output.IsDamage(err, f.lost)
	}
	if err == nil && f.run.failed == nil && r.Totals.Pending > 0 && !r.Interrupted {
		err = f.pending(r.Totals.Pending)
	}
	return *r, errors.Join(f.run.failed, err)
}

// fillResult sets the counters and times in the result of the run, and returns the number of workers.
func (f *finished) fillResult() (workers int) {
	r := &f.run.result
	r.Logs = f.run.record.Logs()
	r.Done, r.Skipped, r.Stages = f.run.engine.Progress.Done.Load(), r.Plan.Done, f.run.engine.Progress.Stages()
	for _, seen := range f.run.engine.Board.Facts().Stages {
		if i := slices.IndexFunc(r.Stages, func(s engine.StageTime) bool { return s.Stage == seen.Stage }); i >= 0 {
			r.Stages[i].Rows = seen.Rows
		}
	}
	if n, first := f.run.engine.Progress.Blind(); n > 0 {
		slog.Warn("measures could not read the results of some rows: their readings are missing; `latentbeam retry` tries again",
			"rows", n, "first", first)
	}
	r.Interrupted = f.run.engine.Schedule.Stopping()
	workers, times, away := f.run.launch.Workers()
	if away {
		r.Stages = times
	}
	return workers
}

// pending returns the error for rows that are not settled although the run was not stopped.
func (f *finished) pending(rows int64) error {
	if f.run.launch.Spread {
		return fault.TryAgain(fmt.Errorf("%d rows are left although runner %s says that the job is done: run it again, which "+
			"computes only these", rows, f.run.launch.Runner.Name))
	}
	return fault.Fatal(fmt.Errorf("%d rows are left after the last pass over the input: it changes while it is read, "+
		"or runner %s drops rows; run the job again", rows, f.run.launch.Runner.Name))
}

// tables writes the tables, the gallery and, last, the summary.
func (f *finished) tables(ctx context.Context, workers int) (err error) {
	r, lap := &f.run.result, stopwatch{time.Now()}
	f.run.report.LastPage = f.run.record.LastPage(f.run.report.Part)
	if r.Totals, err = f.run.report.Write(ctx); err != nil {
		return err
	}
	r.Gallery = f.run.report.Gallery()
	if r.Totals.Pending == 0 && f.run.report.Part == "" { // other shards may still need the log
		if err := f.run.report.Tensors.TruncateLog(ctx); err != nil {
			return err
		}
	}
	if err := f.run.engine.Steps.Clean(ctx, r.Totals.Pending == 0 && f.run.report.Part == "" && f.limit == 0); err != nil {
		return err
	}
	lap.addTo(&f.run.phases.Tables)
	r.Elapsed, r.Phases = time.Since(f.began), *f.run.phases
	err = f.run.report.WriteSummary(ctx, report.Summary{
		Input: r.Totals.Input, Totals: r.Totals, Limit: f.limit, Config: f.config, Terms: f.terms, Unsafe: f.output.Unsafe(),
		Run: record.Summary{
			Computed: r.Done, Skipped: r.Skipped, Seconds: r.Elapsed.Seconds(), Phases: r.Phases,
			Workers: workers, Runner: f.run.launch.Runner.Name, Stages: r.Stages, Resumed: f.run.engine.Steps.Resumed(),
			Memory: f.run.engine.Schedule.Learned.Facts(), Devices: f.machines.Facts(), Exchanges: f.machines.Exchanges(),
		},
	})
	if err != nil {
		return err
	}
	r.Page = f.run.record.WritePage(ctx, record.Page{
		Title: f.run.report.Title, Part: f.run.report.Part, Gallery: r.Gallery, Model: f.model, Version: f.version, Elapsed: r.Elapsed,
		Phases: r.Phases, Done: r.Done, Skipped: r.Skipped, Totals: &r.Totals, Stages: r.Stages, Weights: f.weights, Foreseen: f.run.foreseen,
	})
	return f.output.Results.RecordFiles(ctx, f.run.report.Part)
}
