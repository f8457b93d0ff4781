package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/report"
	"latentbeam/pipelines/planning"
	"latentbeam/pipelines/record"
)

// Result is what a run did.
type Result struct {
	Totals      report.Totals
	Plan        planning.Plan
	NothingToDo bool // an earlier run had done everything
	Joined      bool // the output has the report of all shards, which this one was the last of
	Interrupted bool // Stop was called before all was done
	Done        int64
	Skipped     int64
	Elapsed     time.Duration // without Phases.Open
	Phases      record.Phases
	Stages      []engine.StageTime
	Gallery     string   // name of the page with the videos in the output, "" where there is none
	Logs        []string // files with what the programs printed
	Page        string   // name of report.html of this run in the output, "" where nothing was to be computed

	whole   bool // the run was of all shards
	lost    bool // the ledger or a table turned out to be damaged: there is more to compute
	damaged bool // a table did
}

// Completed reports whether the run has settled the last rows of the whole output.
func (r Result) Completed() bool {
	return !r.NothingToDo && !r.Interrupted && r.Totals.Pending == 0 && (r.whole || r.Joined)
}

// Run computes what is missing and writes the report. started is called once the plan is known. The
// error is nil when every row is settled, failed rows included. The last shard of a job writes the report of all.
func (j *Job) Run(ctx context.Context, started func(planning.Plan)) (Result, error) {
	j.Record.Identify(j.report.Part, j.output.LockName())
	r, err := j.run(ctx, started)
	j.Record.End(ctx, r.Interrupted && r.Totals.Pending > 0, err)
	r.whole = j.report.Part == ""
	if err != nil || j.report.Part == "" || r.Joined || r.Interrupted || r.Totals.Pending > 0 {
		return r, err
	}
	if r.Joined, err = j.join(ctx); r.Joined && r.Gallery != "" {
		r.Gallery = j.report.Gallery()
	}
	return r, err
}

// once computes what is missing and writes the report, once.
func (j *Job) once(ctx context.Context, began time.Time, started func(planning.Plan)) (Result, error) {
	p, err := j.planRun(ctx, began)
	if err != nil {
		return p.result, err
	}
	if started != nil {
		j.Record.Expect(p.result.Plan)
		started(p.result.Plan)
	}
	if over, err := p.settled(ctx); over || err != nil {
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
