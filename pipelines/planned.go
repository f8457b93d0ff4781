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

// planned is a job whose plan is known. Its method start returns the running job.
type planned struct {
	job    *Job
	result Result // so far
	began  time.Time
	lap    stopwatch
	lost   int // number of damaged ledger records known at the start
}

// stopwatch measures the time since its last use.
type stopwatch struct{ last time.Time }

// addTo adds the time since the last use to phase.
func (s *stopwatch) addTo(phase *time.Duration) {
	now := time.Now()
	*phase += now.Sub(s.last)
	s.last = now
}

// planRun plans a run of the job. It returns an error if the run would do something that its options do not allow.
func (j *Job) planRun(ctx context.Context, began time.Time) (*planned, error) {
	p := &planned{job: j, began: began, lap: stopwatch{time.Now()}, lost: j.engine.Ledger.Lost()}
	if err := j.launch.Submitter().Follow(ctx, j.report.Part != "", j.Opts.CancelOthers); err != nil {
		return p, err
	}
	if _, err := j.engine.Store.CleanTemps(ctx, j.output.FreeLocks()...); err != nil {
		return p, err
	}
	plan, err := j.Plan(ctx)
	if err != nil {
		return p, err
	}
	p.result.Plan = plan
	j.Record.Skip(plan)
	if err := j.consent().Allows(plan); err != nil {
		return p, err
	}
	return p, j.marks(plan.New > 0).Check(ctx)
}

// alreadyDone reports whether earlier runs settled all rows and wrote the report. If so, it fills the result of this run.
func (p *planned) alreadyDone(ctx context.Context) (done bool, err error) {
	j, r := p.job, &p.result
	if s, ok := p.upToDate(ctx, j.report.SummaryName(), r.Plan); ok {
		r.NothingToDo, r.Totals, r.Skipped = true, s.Totals, r.Plan.Done
		if err := p.restoreStart(ctx); err != nil {
			return true, err
		}
		return true, j.output.Results.RecordFiles(ctx, j.report.Part)
	}
	s, ok, err := p.joinedSummary(ctx)
	if ok || err != nil {
		r.NothingToDo, r.Joined, r.Totals, r.Skipped = ok, ok, s.Totals, r.Plan.Done
	}
	return ok, err
}

// upToDate returns the summary called name. ok is true if an earlier run wrote a complete report of exactly the rows of the
// plan and the files of the report have not changed.
func (p *planned) upToDate(ctx context.Context, name string, plan planning.Plan) (s report.Summary, ok bool) {
	j := p.job
	if plan.New > 0 || plan.Score > 0 {
		return report.Summary{}, false
	}
	s, err := report.ReadSummary(ctx, j.engine.Store, name)
	complete := s.State == report.Complete || s.State == report.Limited && s.Limit == j.Opts.Limit
	if data, err := store.ReadFile(ctx, j.engine.Store, name); err != nil || !j.report.Output.HasWritten(name, data) {
		return s, false
	}
	same := err == nil && complete && s.Input == plan.Input
	if same && report.OldPlaces(s.Files) {
		slog.Info("the tables of an earlier release move to a folder each, as tables/videos/00000.parquet")
		return s, false
	}
	if unsigned, err := j.marks(false).Unsigned(ctx); err != nil || unsigned {
		return s, false
	}
	return s, same && j.report.AsWritten(ctx, s.Files, j.output.CheckDepth())
}

// joinedSummary returns the summary of all shards if it exists and is up to date. A shard that is started again after the
// last shard wrote it has nothing to do.
func (p *planned) joinedSummary(ctx context.Context) (s report.Summary, ok bool, err error) {
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

// restoreStart writes job.json again if it is missing or damaged.
func (p *planned) restoreStart(ctx context.Context) error {
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

// start loads the weights, starts the record of the run, and marks the output as unfinished.
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
	if err := j.marks(plan.New > 0).Prepare(r.ctx); err != nil {
		return r, err
	}
	if err := p.markUnfinished(r.ctx); err != nil {
		return r, err
	}
	r.next.weights = j.Forecast().Weights(plan.Work)
	r.record.Running()
	r.lap.addTo(&r.phases.Plan)
	return r, nil
}

// prepare loads the weights that the rows of the plan need, and predicts the run.
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

// markUnfinished marks the output as unfinished, by removing its summary, and writes job.json, which `retry` reads.
func (p *planned) markUnfinished(ctx context.Context) error {
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

// running returns the running job, and in it the finished job, with the values that are known before the run.
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
