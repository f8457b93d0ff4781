package pipelines

import (
	"context"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/marks"
)

// marks returns the policy of the output's marks. computes says that files are to be published.
func (j *Job) marks(computes bool) *marks.Policy {
	return &marks.Policy{Computes: computes, Asked: j.Config.MarksOf(marks.Stage), Follow: j.Opts.AsRecorded || j.Opts.Repair || j.Opts.Retry,
		Engine: j.engine, Dir: j.Opts.Start.Directory(), Model: j.host.Model, Rows: j.rows}
}

// Mark gives the files of the output the marks that are asked for, without encoding, and writes tables and pages anew. Where asked is
// not given, it goes on with a change that was cut off, or gives iptc and aigc. The job is open and has no output yet.
func (j *Job) Mark(ctx context.Context, asked config.Marks) (done marking.Changed, err error) {
	j.Record.Identify(j.report.Part, j.output.LockName())
	p := &planned{job: j, began: time.Now()}
	err = j.output.Attach(ctx, func(s store.Store) error { // before anything is found damaged
		done, err = j.marks(false).Change(ctx, s, asked)
		return err
	})
	if err != nil {
		return done, err
	}
	if err := p.unfinish(ctx); err != nil {
		return done, err
	}
	r, err := p.running(ctx)
	if err != nil {
		return done, err
	}
	return done, r.next.tables(ctx, 0)
}
