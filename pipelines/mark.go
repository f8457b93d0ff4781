package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/marks"
)

// marks returns the policy for the output's marks. computes says that the run publishes files.
func (j *Job) marks(computes bool) *marks.Policy {
	return &marks.Policy{Computes: computes, Asked: j.Config.MarksOf(marks.Stage), Follow: j.Opts.AsRecorded || j.Opts.Repair || j.Opts.Retry,
		Engine: j.engine, Dir: j.Opts.Start.Directory(), Model: j.host.Model, Rows: j.rows}
}

// Mark changes the marks of the output's files to asked, without encoding them again, and rewrites tables and pages. If asked is
// not given, it resumes an interrupted change, or puts on iptc and aigc. Mark attaches the job to its output.
func (j *Job) Mark(ctx context.Context, asked config.Marks) (done marking.Changed, err error) {
	j.Record.Identify(j.report.Part, j.output.LockName())
	p := &planned{job: j, began: time.Now()}
	err = j.output.Attach(ctx, func(s store.Store) error { // before Attach compares files with their digests
		done, err = j.marks(false).Change(ctx, s, asked)
		return err
	})
	if err != nil {
		return done, err
	}
	if err := p.markUnfinished(ctx); err != nil {
		return done, err
	}
	r, err := p.running(ctx)
	if err != nil {
		return done, err
	}
	return done, r.next.tables(ctx, 0)
}
