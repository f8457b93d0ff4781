package pipelines

import (
	"context"
	"fmt"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/results/gallery"
	"latentbeam/internal/results/report"
	"latentbeam/pipelines/planning"
)

// maxPasses bounds how often a run goes over its input. One pass is the rule; another follows when rows
// are left that a runner dropped with a bundle.
const maxPasses = 3

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
	Phases      Phases
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

// Phases are what the time of a run consists of.
type Phases struct {
	Open   time.Duration `json:"open_ns"`   // model, input and devices, digests of weights included
	Plan   time.Duration `json:"plan_ns"`   // what is to be done, and how
	Rows   time.Duration `json:"rows_ns"`   // from the first row to the last
	Tables time.Duration `json:"tables_ns"` // tables and gallery behind the last row
}

// String lists them.
func (p Phases) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%v to open model and input, %v to plan, %v for rows, %v for tables", ms(p.Open), ms(p.Plan),
		ms(p.Rows), ms(p.Tables))
}

// Run computes what is missing and writes the report. started is called once the plan is known. The
// error is nil when every row is settled, failed rows included. The last shard of a job writes the report of all.
func (j *Job) Run(ctx context.Context, started func(planning.Plan)) (Result, error) {
	j.Record.identify(j.report.Part, j.output.LockName())
	r, err := j.run(ctx, started)
	j.Record.end(ctx, r, err)
	r.whole = j.report.Part == ""
	if err != nil || j.report.Part == "" || r.Joined || r.Interrupted || r.Totals.Pending > 0 {
		return r, err
	}
	if r.Joined, err = j.join(ctx); r.Joined && r.Gallery != "" {
		r.Gallery = gallery.PageName(1)
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
		j.Record.expect(p.result.Plan)
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
