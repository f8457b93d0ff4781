package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/report"
	"latentbeam/pipelines/planning"
	"latentbeam/pipelines/record"
)

// Result describes what a run did.
type Result struct {
	Totals      report.Totals
	Plan        planning.Plan
	NothingToDo bool // earlier runs had settled all rows
	Joined      bool // this shard was the last one, and the output has the report of all shards
	Interrupted bool // Stop was called before all rows were settled
	Done        int64
	Skipped     int64
	Elapsed     time.Duration // without Phases.Open
	Phases      record.Phases
	Stages      []engine.StageTime
	Gallery     string   // name in the output of the page with the videos; "": none
	Logs        []string // log files with the output of the stages' programs
	Page        string   // name in the output of this run's report.html; "": no rows were computed

	whole   bool // the run computed the rows of all shards
	lost    bool // the ledger or a table was found damaged, so rows have to be computed again
	damaged bool // a table was found damaged
}

// Completed reports whether this run settled the last rows of the whole output.
func (r Result) Completed() bool {
	return !r.NothingToDo && !r.Interrupted && r.Totals.Pending == 0 && (r.whole || r.Joined)
}

// Run computes the missing rows and writes the report. It calls started when the plan is known. The
// error is nil if every row is settled, failed rows included. The last shard of a job writes the report of all shards.
func (j *Job) Run(ctx context.Context, started func(planning.Plan)) (Result, error) {
	j.Record.Identify(j.report.Part, j.output.LockName())
	r, err := j.run(ctx, started)
	j.Record.Finish(ctx, r.Interrupted && r.Totals.Pending > 0, err)
	r.whole = j.report.Part == ""
	if err != nil || j.report.Part == "" || r.Joined || r.Interrupted || r.Totals.Pending > 0 {
		return r, err
	}
	if r.Joined, err = j.join(ctx); r.Joined && r.Gallery != "" {
		r.Gallery = j.report.Gallery()
	}
	return r, err
}

// runOnce computes the missing rows and writes the report. It does not repair damage that it finds on the way.
func (j *Job) runOnce(ctx context.Context, began time.Time, started func(planning.Plan)) (Result, error) {
	p, err := j.planRun(ctx, began)
	if err != nil {
		return p.result, err
	}
	if started != nil {
		j.Record.Expect(p.result.Plan)
		started(p.result.Plan)
	}
	if done, err := p.alreadyDone(ctx); done || err != nil {
		return p.result, err
	}
	r, err := p.start(ctx)
	if err != nil {
		return p.result, err
	}
	f, err := r.compute()
	if err != nil {
		return r.result, err
	}
	return f.write()
}
