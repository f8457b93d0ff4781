package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/memory"
	"latentbeam/internal/engine/schedule"
	"latentbeam/internal/results/gallery"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/jobfile"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// maxPasses bounds how often a run goes over its input. One pass is the rule; another follows when rows
// are left that a runner dropped with a bundle.
const maxPasses = 3

// Result is what a run did.
type Result struct {
	Totals      report.Totals
	Plan        Plan
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

// stopwatch tells how long it is since it was asked last.
type stopwatch struct{ last time.Time }

// into adds that to a phase.
func (s *stopwatch) into(phase *time.Duration) {
	now := time.Now()
	*phase += now.Sub(s.last)
	s.last = now
}

// runFacts is what summary.json says of the run itself.
type runFacts struct {
	Computed int64              `json:"computed"`
	Skipped  int64              `json:"skipped"`
	Seconds  float64            `json:"seconds"`
	Phases   Phases             `json:"phases"`
	Workers  int                `json:"workers"`
	Runner   string             `json:"runner"`
	Stages   []engine.StageTime `json:"stages"`
	// Resumed are the sampling steps that an earlier run had done of rows of this one.
	Resumed int64 `json:"steps_resumed,omitempty"`

	Memory  []memory.Fact `json:"memory,omitempty"`  // what was learned of it
	Devices any           `json:"devices,omitempty"` // what was seen of GPUs

	Exchanges *cluster.Links `json:"exchanges_between_hosts,omitempty"` // of GPUs
}

// Run computes what is missing and writes the report. started is called once the plan is known. The
// error is nil when every row is settled, failed rows included. The last shard of a job writes the report of all.
func (j *Job) Run(ctx context.Context, started func(Plan)) (Result, error) {
	j.identify()
	r, err := j.run(ctx, started)
	j.end(ctx, r, err)
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
func (j *Job) once(ctx context.Context, began time.Time, started func(Plan)) (Result, error) {
	lost, lap := j.engine.Ledger.Lost(), stopwatch{time.Now()}
	if err := j.submitter().Follow(ctx, j.report.Part != "", j.Opts.CancelOthers); err != nil {
		return Result{}, err
	}
	if _, err := j.engine.Store.CleanTemps(ctx, j.free...); err != nil {
		return Result{}, err
	}
	plan, err := j.Plan(ctx)
	if err != nil {
		return Result{}, err
	}
	r := Result{Plan: plan}
	j.passOver(plan)
	if err := j.allowed(plan); err != nil {
		return r, err
	}
	if err := j.marks(plan.New > 0).check(ctx); err != nil {
		return r, err
	}
	if started != nil {
		j.expect(plan)
		started(plan)
	}
	if over, err := j.settled(ctx, &r); over || err != nil {
		return r, err
	}
	if ctx, err = j.arrange(ctx, plan); err != nil {
		return r, err
	}
	j.recorder.Load().Set(runfiles.Running)
	lap.into(&j.phases.Plan)
	endEarly := j.writeEarly(ctx)
	computeErr := j.compute(ctx, plan)
	endEarly()
	lap.into(&j.phases.Rows)
	if ctx.Err() != nil {
		if errors.Is(computeErr, context.Canceled) {
			computeErr = nil // says the same
		}
		return r, errors.Join(computeErr, context.Cause(ctx))
	}
	if errors.Is(computeErr, store.ErrRemoved) { // there is no place for a report
		return r, computeErr
	}
	if j.elsewhere() {
		computeErr = errors.Join(computeErr, j.marks(true).sign(ctx))
	}
	workers := j.tell(&r)
	j.recorder.Load().Set(runfiles.Writing)
	// The report is written after a failure too: what was done by then is there to be looked at.
	err = j.finish(ctx, &r, began, workers)
	r.lost = computeErr == nil && !r.Interrupted && j.lost(lost, err)
	r.damaged = r.lost && isDamagedTable(err)
	if err == nil && computeErr == nil && r.Totals.Pending > 0 && !r.Interrupted {
		err = j.pending(r.Totals.Pending)
	}
	return r, errors.Join(computeErr, err)
}

// allowed refuses a run that would do more than its options say.
func (j *Job) allowed(plan Plan) error {
	if j.Opts.ScoreOnly && plan.New > 0 {
		return fault.Usage(fmt.Errorf("%d of %d rows of the job are not done, and scores are of finished videos: run the job first (`latentbeam run %s`), "+
			"or give --output, which scores the videos that are there", plan.New, plan.Rows, j.Opts.Start.File))
	}
	if j.Opts.Repair {
		if err := j.mends(plan); err != nil {
			return err
		}
	}
	if err := j.sameMeaning(plan); err != nil {
		return err
	}
	return j.sameClass(plan)
}

// settled reports whether an earlier run has done everything, and fills the result of this one then.
func (j *Job) settled(ctx context.Context, r *Result) (over bool, err error) {
	if s, ok := j.upToDate(ctx, j.report.SummaryName(), r.Plan); ok {
		r.NothingToDo, r.Totals, r.Skipped = true, s.Totals, r.Plan.Done
		if err := j.keepStart(ctx); err != nil {
			return true, err
		}
		return true, j.results.Remember(ctx, j.report.Part)
	}
	s, ok, err := j.joined(ctx, r.Plan)
	if ok || err != nil {
		r.NothingToDo, r.Joined, r.Totals, r.Skipped = ok, ok, s.Totals, r.Plan.Done
	}
	return ok, err
}

// arrange brings the job to where it can compute. The context that it returns ends when somebody cancels the job.
func (j *Job) arrange(ctx context.Context, plan Plan) (context.Context, error) {
	if plan.Vanished > 0 {
		slog.Warn("the input has lost rows of the finished output: the tables lose them now, their videos and results stay",
			"lost", plan.Vanished, "left", plan.Rows)
	}
	for _, w := range plan.Warnings {
		slog.Warn(w)
	}
	for _, note := range plan.Notes {
		slog.Log(ctx, source.LevelNotice, note)
	}
	ctx = j.watch(ctx, plan)
	j.foreseen = forecast.Foreseen{Why: "The rows were computed by an engine's workers: latentbeam plan predicts for this host alone."}
	if !j.elsewhere() {
		f := j.forecast()
		if err := f.Prepare(ctx, plan.Work); err != nil {
			return ctx, err
		}
		j.foreseen = f.Foresee(ctx, plan.Work)
		if err := j.host.Reload(ctx); err != nil {
			return ctx, err
		}
	}
	if err := j.marks(plan.New > 0).begin(ctx); err != nil {
		return ctx, err
	}
	return ctx, j.unfinish(ctx)
}

// tell fills the result of a run with what was done, and returns how many workers did it.
func (j *Job) tell(r *Result) (workers int) {
	r.Logs = slices.DeleteFunc(slices.Clone(j.logs), func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0
	})
	r.Done, r.Skipped, r.Stages = j.engine.Progress.Done.Load(), r.Plan.Done, j.engine.Progress.Stages()
	for _, seen := range j.engine.Board.Facts().Stages {
		if i := slices.IndexFunc(r.Stages, func(s engine.StageTime) bool { return s.Stage == seen.Stage }); i >= 0 {
			r.Stages[i].Rows = seen.Rows
		}
	}
	if n, first := j.engine.Progress.Blind(); n > 0 {
		slog.Warn("measures could not look at rows: their results are there and readings are missing; `latentbeam retry` tries again",
			"rows", n, "first", first)
	}
	r.Interrupted = j.engine.Schedule.Stopping()
	if j.workers == nil || !j.elsewhere() {
		return j.engine.Schedule.Pool.Size()
	}
	r.Stages = j.workers.Stages()
	return j.workers.Workers()
}

// pending is the error of rows that are left although the run was not stopped.
func (j *Job) pending(rows int64) error {
	if j.spread() {
		return fault.TryAgain(fmt.Errorf("%d rows are left although runner %s says that the job is done: run it again, which "+
			"computes these alone", rows, j.runner.Name))
	}
	return fault.Fatal(fmt.Errorf("%d rows are left after the last pass over the input: it changes while it is read, "+
		"or runner %s drops rows; run the job again", rows, j.runner.Name))
}

// unfinish marks the output as unfinished and saves how the job was started, for `retry`.
func (j *Job) unfinish(ctx context.Context) error {
	name := j.report.SummaryName()
	if err := j.engine.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := j.report.Output.Witness.Invalidate(ctx, j.engine.Store, j.report.Part); err != nil {
		return err
	}
	return j.report.Output.Replace(ctx, jobfile.Name, j.Opts.Start.Write)
}

// keepStart writes the file of the start anew where it is gone or damaged.
func (j *Job) keepStart(ctx context.Context) error {
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

// compute runs the Beam pipeline, again while it has not settled all that it began.
func (j *Job) compute(ctx context.Context, plan Plan) error {
	if plan.New == 0 && plan.Score == 0 {
		return nil
	}
	runners.Init()
	names := j.names()
	for _, b := range plan.Buckets {
		j.engine.Expected = append(j.engine.Expected, schedule.Expected{Row: b.First, Rows: int(b.Rows)})
	}
	if j.spread() {
		return j.distribute(ctx, plan, names)
	}
	spec := fmt.Appendf(nil, "%s %s %s", j.engine.Store.URL(), j.RunID(), j.report.Part) // shards have one ID
	defer transforms.Register(spec, j.engine)()
	for range maxPasses {
		err := j.engine.Pass(ctx, func(ctx context.Context) error {
			return j.runner.Run(ctx, runners.Launch{Pipeline: transforms.Pipeline(spec, names, false), Job: j.report.Title,
				Config: j.Config.Runner})
		})
		if err != nil || j.engine.Settled() || j.engine.Schedule.Stopping() {
			return err
		}
	}
	return nil // the report finds what is left
}

// finish writes the tables, the gallery and, last, the summary.
func (j *Job) finish(ctx context.Context, r *Result, began time.Time, workers int) (err error) {
	lap := stopwatch{time.Now()}
	if r.Totals, err = j.report.Write(ctx); err != nil {
		return err
	}
	if j.engine.Keep[stages.KindVideo] {
		r.Gallery = j.report.Part + gallery.PageName(1)
	}
	if r.Totals.Pending == 0 && j.report.Part == "" { // shards share the ledger
		if err := j.report.Tensors.TruncateLog(ctx); err != nil {
			return err
		}
	}
	if err := j.engine.CleanSteps(ctx, r.Totals.Pending == 0 && j.report.Part == "" && j.Opts.Limit == 0); err != nil {
		return err
	}
	config, err := j.Config.CanonicalJSON()
	if err != nil {
		return err
	}
	lap.into(&j.phases.Tables)
	r.Elapsed, r.Phases = time.Since(began), j.phases
	err = j.report.WriteSummary(ctx, report.Summary{
		Input: r.Totals.Input, Totals: r.Totals, Limit: j.Opts.Limit, Config: config, Terms: j.host.Terms, Unsafe: open.Broken(j.engine.Store),
		Run: runFacts{
			Computed: r.Done, Skipped: r.Skipped, Seconds: r.Elapsed.Seconds(), Phases: r.Phases,
			Workers: workers, Runner: j.runner.Name, Stages: r.Stages, Resumed: j.engine.StepsResumed(),
			Memory: j.engine.Schedule.Learned.Facts(), Devices: j.deviceFacts(), Exchanges: j.exchanges(),
		},
	})
	if err != nil {
		return err
	}
	r.Page = j.writePage(ctx, r)
	return j.results.Remember(ctx, j.report.Part)
}
