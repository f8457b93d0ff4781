package pipelines

import (
	"context"

	"latentbeam/pipelines/planning"
)

// Plan reads the whole input once and compares it with the ledger. Each of several equal rows counts in the plan,
// although the run computes only one of them.
func (j *Job) Plan(ctx context.Context) (p planning.Plan, err error) {
	if !j.output.Reading() {
		return j.planner().Plan(ctx)
	}
	err = j.output.Again(func() error {
		if !j.output.Reading() { // Again has closed the output, because it changed during the read
			if err := j.output.Peek(ctx); err != nil {
				return err
			}
		}
		p, err = j.planner().Plan(ctx)
		return err
	})
	return p, err
}

// PlanWhole returns the plan that the job would have without an output. The output must be open for reading only.
func (j *Job) PlanWhole(ctx context.Context) (planning.Plan, error) {
	j.output.Detach()
	j.output.Forget()
	return j.planner().Plan(ctx)
}

// planner returns a planner for the current state of the job.
func (j *Job) planner() *planning.Planner {
	return &planning.Planner{Config: j.Config, Specs: j.Opts.Specs, Start: j.Opts.Start, Limit: j.Opts.Limit, NameAll: j.Opts.AllFailures,
		Engine: j.engine, Host: j.host, Input: j.input, Rows: j.rows, Report: &j.report, Loosened: j.output.Results.Loosened,
		Reading: j.output.Reading(), Others: j.launch.Away || j.machines.Local.Size() == 0, Consent: j.consent(), Looked: &j.rowsRead}
}

// consent returns what the options of this run allow.
func (j *Job) consent() planning.Consent {
	o := j.Opts
	c := planning.Consent{ScoreOnly: o.ScoreOnly, Repair: o.Repair, NewMeaning: o.NewMeaning, NewClass: o.NewClass, Job: o.Start.File,
		Class: j.engine.Rules.Class, Before: j.before}
	if j.engine.Ledger != nil {
		c.Output, c.Filled = j.engine.Store.URL(), j.engine.Ledger.Len() > 0
	}
	return c
}
