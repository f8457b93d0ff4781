package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/planning"
)

// planned is a job whose plan is known. start gives the running job.
type planned struct {
	job    *Job
	result Result // so far
	began  time.Time
	lap    stopwatch
	lost   int // damaged records of the ledger that are known
}

// stopwatch tells how long it is since it was asked last.
type stopwatch struct{ last time.Time }

// into adds that to a phase.
func (s *stopwatch) into(phase *time.Duration) {
	now := time.Now()
	*phase += now.Sub(s.last)
	s.last = now
}

// planRun plans a run of the job, and refuses one that does more than it may.
func (j *Job) planRun(ctx context.Context, began time.Time) (*planned, error) {
	p := &planned{job: j, began: began, lap: stopwatch{time.Now()}, lost: j.engine.Ledger.Lost()}
	if err := j.launch.Submitter().Follow(ctx, j.report.Part != "", j.Opts.CancelOthers); err != nil {
		return p, err
	}
	if _, err := j.engine.Store.CleanTemps(ctx, j.output.Free()...); err != nil {
		return p, err
	}
	plan, err := j.Plan(ctx)
	if err != nil {
		return p, err
	}
	p.result.Plan = plan
	j.Record.PassOver(plan)
	if err := j.consent().Allows(plan); err != nil {
		return p, err
	}
	return p, j.marks(plan.New > 0).Check(ctx)
}

// settled reports whether an earlier run has done everything, and fills the result of this one then.
func (p *planned) settled(ctx context.Context) (over bool, err error) {
	j, r := p.job, &p.result
	if s, ok := p.upToDate(ctx, j.report.SummaryName(), r.Plan); ok {
		r.NothingToDo, r.Totals, r.Skipped = true, s.Totals, r.Plan.Done
		if err := p.keepStart(ctx); err != nil {
			return true, err
		}
		return true, j.output.Results.Remember(ctx, j.report.Part)
	}
	s, ok, err := p.joined(ctx)
	if ok || err != nil {
		r.NothingToDo, r.Joined, r.Totals, r.Skipped = ok, ok, s.Totals, r.Plan.Done
	}
	return ok, err
}

// upToDate returns the summary of that name where an earlier run left a complete report of exactly these rows, whose
// files are as it wrote them.
func (p *planned) upToDate(ctx context.Context, name string, plan planning.Plan) (report.Summary, bool) {
	j := p.job
	if plan.New > 0 || plan.Score > 0 {
		return report.Summary{}, false
	}
	s, err := report.ReadSummary(ctx, j.engine.Store, name)
	whole := s.State == report.Complete || s.State == report.Limited && s.Limit == j.Opts.Limit
	if data, err := store.ReadFile(ctx, j.engine.Store, name); err != nil || !j.report.Output.HasWritten(name, data) {
		return s, false
	}
	same := err == nil && whole && s.Input == plan.Input
	if same && report.OldPlaces(s.Files) {
		slog.Info("the tables of an earlier release move to a folder each, as tables/videos/00000.parquet")
		return s, false
	}
	if unsigned, err := j.marks(false).Unsigned(ctx); err != nil || unsigned {
		return s, false
	}
	return s, same && j.report.AsWritten(ctx, s.Files, j.output.Looks())
}

// joined returns the summary of all shards where they have one and it is up to date: a shard that was joined and is
// started again has nothing to do.
func (p *planned) joined(ctx context.Context) (s report.Summary, ok bool, err error) {
	j := p.job
	name := new(report.Job).SummaryName()
	if p.result.Plan.New > 0 || p.result.Plan.Score > 0 || j.report.Part == "" {
		return s, false, nil
	}
	if there, err := store.Exists(ctx, j.engine.Store, name); !there || err != nil {
		return s, false, err
	}
	rules, shards := &j.engine.Rules, j.engine.Rules.Shards
	rules.Shards = 0
	whole, err := j.Plan(ctx)
	rules.Shards = shards
	if err == nil {
		s, ok = p.upToDate(ctx, name, whole)
	}
	return s, ok, err
}

// keepStart writes the file of the start anew where it is gone or damaged.
func (p *planned) keepStart(ctx context.Context) error {
	j := p.job
	data, err := store.ReadFile(ctx, j.engine.Store, jobfile.Name)
	var s jobfile.Start
	if err == nil && json.Unmarshal(data, &s) == nil && j.report.Output.HasWritten(jobfile.Name, data) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return j.report.Output.Replace(ctx, jobfile.Name, j.Opts.Start.Write)
}

// start brings the job to where it can compute, and marks its output as unfinished.
func (p *planned) start(ctx context.Context) (*running, error) {
	j, plan := p.job, p.result.Plan
	plan.Log(ctx)
	r, err := p.running(j.Record.Watch(ctx, plan))
	if err != nil {
		return r, err
	}
	if !j.launch.Away {
		if r.foreseen, err = j.prepare(r.ctx, plan); err != nil {
			return r, err
		}
		j.engine.Board.Foresee(r.foreseen.Costs())
	}
	if err := j.marks(plan.New > 0).Begin(r.ctx); err != nil {
		return r, err
	}
	if err := p.unfinish(r.ctx); err != nil {
		return r, err
	}
	r.next.weights = j.Forecast().Weights(plan.Work)
	r.record.Running()
	r.lap.into(&r.phases.Plan)
	return r, nil
}

// prepare brings the weights to devices that the rows of the plan ask for, and predicts the run.
func (j *Job) prepare(ctx context.Context, plan planning.Plan) (foreseen forecast.Foreseen, err error) {
	f, work := j.Forecast(), plan.Work
	switch {
	case plan.New > 0:
	case plan.Score > 0:
		f, work = j.ForecastScores(), plan.Scores
	default:
		return f.Foresee(ctx, work), nil
	}
	if err := f.Prepare(ctx, work); err != nil {
		return foreseen, err
	}
	return f.Foresee(ctx, work), f.Host.Reload(ctx)
}

// unfinish marks the output as unfinished and saves how the job was started, for `retry`.
func (p *planned) unfinish(ctx context.Context) error {
	j := p.job
	name := j.report.SummaryName()
	if err := j.engine.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := j.report.Output.Witness.Invalidate(ctx, j.engine.Store, j.report.Part); err != nil {
		return err
	}
	return j.report.Output.Replace(ctx, jobfile.Name, j.Opts.Start.Write)
}

// running is the job as it runs, and what it becomes, from what the plan knows.
func (p *planned) running(ctx context.Context) (*running, error) {
	j := p.job
	r := &running{ctx: ctx, engine: j.engine, launch: &j.launch, record: j.Record, report: &j.report, marks: j.marks(true),
		phases: &j.phases, result: p.result, lap: p.lap,
		foreseen: forecast.Foreseen{Why: "The rows were computed by an engine's workers: latentbeam plan predicts for this host alone."}}
	r.next = &finished{run: r, output: &j.output, machines: j.machines, limit: j.Opts.Limit, version: j.Opts.Version, model: j.host.Model,
		terms: j.host.Terms, began: p.began, lost: p.lost}
	var err error
	r.next.config, err = j.Config.CanonicalJSON()
	return r, err
}
