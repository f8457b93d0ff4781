package pipelines

import (
	"context"

	"latentbeam/pipelines/planning"
)

// Plan reads the whole input once and compares it with the ledger. Equal rows that are still to be
// computed count once each here; the run computes them once for all.
func (j *Job) Plan(ctx context.Context) (p planning.Plan, err error) {
	if !j.output.Reading() {
		return j.planner().Plan(ctx)
	}
	err = j.output.Again(func() error {
		if !j.output.Reading() { // it was read before, and has changed since
			if err := j.output.Peek(ctx); err != nil {
				return err
			}
		}
		p, err = j.planner().Plan(ctx)
		return err
	})
	return p, err
}

// PlanAnew is the plan of the job as if it had no output yet. The job only looks at its output.
func (j *Job) PlanAnew(ctx context.Context) (planning.Plan, error) {
	j.output.Detach()
	j.output.Forget()
	return j.planner().Plan(ctx)
}

// planner makes plans of the job as it is now.
func (j *Job) planner() *planning.Planner {
	return &planning.Planner{Config: j.Config, Specs: j.Opts.Specs, Start: j.Opts.Start, Limit: j.Opts.Limit, NameAll: j.Opts.AllFailures,
		Engine: j.engine, Host: j.host, Input: j.input, Rows: j.rows, Report: &j.report, Loosened: j.output.Results.Loosened,
		Reading: j.output.Reading(), Others: j.launch.Away || j.machines.Local.Size() == 0, Consent: j.consent(), Looked: &j.looked}
}

// consent is what the options of this run allow.
func (j *Job) consent() planning.Consent {
	o := j.Opts
	c := planning.Consent{ScoreOnly: o.ScoreOnly, Repair: o.Repair, NewMeaning: o.NewMeaning, NewClass: o.NewClass, Job: o.Start.File,
		Class: j.engine.Rules.Class, Before: j.before}
	if j.engine.Ledger != nil {
		c.Output, c.Filled = j.engine.Store.URL(), j.engine.Ledger.Len() > 0
	}
	return c
}
