package pipelines

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/host"
	"latentbeam/pipelines/hardware"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/launch"
	"latentbeam/pipelines/output"
	"latentbeam/pipelines/planning"
	"latentbeam/pipelines/record"
	"latentbeam/schemas/fault"

	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/pipelines/explain"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/recompute"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// Options are the settings of a run that are not in its configuration.
type Options struct {
	Specs   []stages.Spec // the catalogue
	Version string        // version of the program, for the provenance columns
	Limit   int           // number of rows to read from the start of the input; 0: all
	// AllFailures makes a plan list every row that cannot be computed, instead of only the first.
	AllFailures bool
	Shard       int  // number of this run among Shards, from 0
	Shards      int  // number of shards; 0 and 1: this run computes all rows
	Retry       bool // computes failed rows again
	Start       jobfile.Start
	// AllowEmpty accepts an input without rows. The output then has no rows either.
	AllowEmpty bool
	// Devices are the devices of another machine. The job can then be planned for that machine, but not run.
	Devices []layout.DeviceModel
	// Inspect says that the job is only planned. It inspects the devices and does not acquire them, because other processes may
	// need them.
	Inspect bool
	// PlanOnly accepts a model that has only its configuration files and no weights. Attach then returns an error.
	PlanOnly bool

	// Repair reads every file of the output, whatever output.verify says, and computes damaged or missing results of
	// finished rows again. If the input has other new rows, the run fails before it computes anything.
	Repair bool
	// ScoreOnly computes measures of finished rows and nothing else. If the input has new rows, the run fails before it computes
	// anything. The tables still show the readings when the job later runs without these measures.
	ScoreOnly bool
	// CancelOthers cancels a job of an earlier run that is still running on an engine. Without it, the run waits for that job.
	CancelOthers bool

	// NewClass allows the job to compute rows again in a numeric class that differs from the output's.
	NewClass bool
	// NewMeaning allows the job to compute rows again that the output has from an earlier configuration or earlier tables.
	NewMeaning bool

	// AsRecorded puts the marks on files that the output's record lists, and ignores those that the job asks for.
	AsRecorded bool

	worker bool   // another process submitted the job
	class  string // numeric class of the submitter, if worker

	stores output.Stores // for tests; the zero value opens the store that the address names
}

// Job is a configuration whose stages, devices and input are open and checked. It writes nothing before Attach.
type Job struct {
	Config *config.Config
	Opts   Options
	Record *record.Record // record of its run

	engine   *engine.Engine
	input    *input.Input
	rows     input.Rows
	host     *host.Stages // stages of the job in this process
	machines hardware.Machines
	launch   launch.Launcher
	output   output.Output
	report   report.Job
	foreseen forecast.Foreseen // forecast of the run, made before it
	phases   record.Phases     // phases of the run
	before   string            // numeric class of the rows in the output; "": no rows, or unknown
	close    []func()
	rowsRead atomic.Int64 // rows that the current Plan call has read
}

// Open opens everything that a job needs except its output. It reports errors in the configuration, the model or the
// input, with their position in the file, and writes nothing.
func Open(cfg *config.Config, o Options) (*Job, error) {
	began := time.Now()
	launcher, err := launch.Find(cfg, o.Start.Directory(), o.worker)
	if err != nil {
		return nil, err
	}
	openStages := host.Open
	if o.PlanOnly {
		openStages = host.OpenToPlan
	}
	h, err := openStages(cfg, o.Specs)
	if err != nil {
		return nil, err
	}
	j := &Job{Config: cfg, Opts: o, host: h, launch: launcher, close: []func(){h.Close}}
	if err := j.open(); err != nil {
		j.Close()
		return nil, err
	}
	j.phases.Open = time.Since(began)
	return j, nil
}

// open opens the input and the devices, and sets the fields of the job.
func (j *Job) open() (err error) {
	j.Opts.stores.Unsafe = j.Config.Output.UnsafeStore
	cfg, o := j.Config, j.Opts
	in := input.New(cfg, o.Limit, j.host.Defaults, j.host.Steps)
	j.input = in
	if err := j.host.CheckDefaults(in.First); err != nil {
		return err
	}
	var source engine.RowSource
	if !o.worker { // a worker of an engine receives its rows from the submitter
		if source, err = in.Open(o.AllowEmpty); err != nil {
			return err
		}
	}
	if err := j.openDevices(); err != nil {
		return err
	}
	workers := j.machines.Workers()
	j.engine = engine.New(j.host.Steps, workers)
	j.engine.Source, j.engine.Schedule.MaxBatch, j.engine.Recovery.Retries = source, int(cfg.Resources.BatchSize), cfg.OnError.Retries
	if j.engine.Schedule.MaxBatch == 0 && host.SourceKind(cfg) == stages.KindVideo {
		j.engine.Schedule.MaxBatch = videosAtOnce
	}
	j.engine.Progress.TooMany, j.engine.Keep, j.engine.Recovery.Freed = cfg.OnError.Stop, host.Keep(cfg), j.host.Freed
	if every, on := cfg.Resources.CheckpointInterval.Every(); on {
		j.engine.Steps.SaveEvery(every)
	}
	j.rows = input.Rows{Source: source, Rules: &j.engine.Rules}
	j.engine.Published = j.output.Results.Published
	j.engine.Schedule.Recall(j.host.Facts)
	if j.engine.Rules, err = j.host.Rules(workers.Class(), o.Shard, o.Shards, in.Contents); err != nil {
		return cfg.Errorf("stages", "%v", err)
	}
	j.report = report.Job{
		Title: filepath.Base(cfg.Output.Path), Rows: j.rows.Mine, Keep: j.engine.Keep, Part: output.Part(o.Shard, o.Shards),
		RowsPerFile: cfg.Output.RowsPerFile, Clips: cfg.Input.Cuts(), Alike: j.host.Alike(), Limits: j.host.Limits(),
		Media:  host.SourceKind(cfg) == stages.KindMedia,
		Scores: cfg.Output.Scores != "", Measures: host.MeasuresOfVideos(j.host.Steps), Select: selects(cfg), Programs: j.host.Programs(),
		Generates: slices.ContainsFunc(j.engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == "denoise" }),
		Facts: report.Facts{
			Model: j.host.Model, Weights: j.engine.Rules.Weights(), Class: workers.Class(), Version: o.Version,
			Varies: strings.Join(j.host.Varying(), " "), Loras: j.host.LorasJSON(),
			Licence: stages.LicenceOf(j.host.Terms), Revision: stages.RevisionOf(j.host.Terms),
		},
	}
	if err := j.report.NameVideos(cfg); err != nil {
		return err
	}
	j.Record = record.New(j.engine, record.Run{Runner: j.launch.Runner.Name, Version: o.Version, File: o.Start.File, Class: j.engine.Rules.Class,
		Shards: o.Shards, Apart: o.Shards > 1 && !j.launch.Spread, Away: j.launch.Away})
	j.launch.Start, j.launch.Version, j.launch.Limit, j.launch.Retry = &j.Opts.Start, o.Version, o.Limit, o.Retry
	j.launch.Title, j.launch.Engine, j.launch.Record = j.report.Title, j.engine, j.Record
	j.output = output.Output{Stores: o.stores, Config: cfg, Specs: o.Specs, Start: &j.Opts.Start, Engine: j.engine, Report: &j.report,
		Limits: j.host.Limits(), ScoreOnly: o.ScoreOnly, Retry: o.Retry, CheckAll: o.Repair || cfg.Output.Verify == config.VerifyDigest,
		Several: o.Shards > 1 || j.launch.Away, SharesNames: in.SharesNames}
	j.report.TensorFacts, j.report.HalfLatents = j.host.TensorFacts()
	if j.launch.Away || j.loadsLater() || len(j.host.Lacks) > 0 {
		return nil
	}
	return j.host.Load(context.Background())
}

// openDevices opens the devices of this process, connects to the workers on other hosts, and arranges the weights on all devices.
func (j *Job) openDevices() (err error) {
	if !j.Opts.worker {
		j.before = j.Opts.stores.Class(context.Background(), j.Config.Output.Path, output.Part(j.Opts.Shard, j.Opts.Shards))
	}
	if j.machines, err = hardware.Open(hardware.Request{Config: j.Config, Start: j.Opts.Start, Steps: j.host.Steps, Planned: j.Opts.Devices,
		Inspect: j.Opts.Inspect, Away: j.launch.Away, Class: j.Opts.class, Before: j.before}); err != nil {
		return err
	}
	j.close = append(j.close, j.machines.Close)
	j.host.SetDevices(host.NewDevices(j.machines.Local))
	workers := j.machines.Workers()
	if j.Opts.Devices == nil {
		j.host.Facts = j.Opts.stores.Recall(context.Background(), j.Config.Output.Path, output.Part(j.Opts.Shard, j.Opts.Shards), workers.Class())
	}
	if err := j.host.ArrangeDefaults(); err != nil || j.Opts.Devices != nil {
		return err
	}
	return hardware.CheckWidths(j.Config, j.host.Steps, &j.host.Defaults, workers.Size())
}

// videosAtOnce is the number of input videos in memory per device. Measures process them one by one, so more would not
// be faster.
const videosAtOnce = 8

// loadsLater reports whether the job loads weights only when the plan is known. With an existing output, a run may compute
// no rows or only readings. With a new output, the job loads weights at once, so that a checkpoint that does not fit is
// reported early.
func (j *Job) loadsLater() bool { return j.Opts.worker || !j.Opts.Inspect && j.before != "" }

// Attach opens the output for writing and acquires its lock. If another run holds the lock, the error names that
// run. Close releases it.
func (j *Job) Attach(ctx context.Context) error {
	if len(j.host.Lacks) > 0 {
		return fault.Usage(fmt.Errorf("not here: %s; the job can be planned, but not run", strings.Join(j.host.Lacks, ", ")))
	}
	if err := j.Ready(); err != nil {
		return err
	}
	return j.output.Attach(ctx, nil)
}

// Peek opens the output for reading. If the output does not exist, the job has no finished rows.
func (j *Job) Peek(ctx context.Context) error {
	return j.output.Again(func() error { return j.output.Peek(ctx) })
}

// Ready returns an error if this host lacks something that the job needs, such as the program of a stage. Attach calls it.
func (j *Job) Ready() error {
	if j.launch.Away || j.machines.Local.Size() == 0 { // others compute
		return nil
	}
	return j.host.Ready()
}

// Close releases the output, the devices and the stages of the job.
func (j *Job) Close() {
	j.output.Release()
	for i := len(j.close) - 1; i >= 0; i-- {
		j.close[i]()
	}
	j.close = nil
}

// Forecast returns a predictor of the job.
func (j *Job) Forecast() *forecast.Predictor {
	return &forecast.Predictor{Config: j.Config, Engine: j.engine, Host: j.host, Local: j.machines.Local, Fleet: j.machines.Fleet}
}

// ForecastScores returns a predictor of the readings of finished rows (Plan.Scores). It includes only the stages that only
// look, because a run that computes no results loads only their weights.
func (j *Job) ForecastScores() *forecast.Predictor {
	f := j.Forecast()
	f.Host = j.host.Looking()
	f.Engine = engine.New(f.Host.Steps, j.engine.Schedule.Pool)
	f.Engine.Schedule.MaxBatch = j.engine.Schedule.MaxBatch
	return f
}

// Program returns the name of the first stage that is a program; "": none.
func (j *Job) Program() string { return stages.FirstProgram(j.engine.Schedule.Steps) }

// Explain returns the state of the rows that id names: by their id, by their place in the input ("prompts.csv:3") or by
// at least the first eight digits of their key. Call Peek first.
func (j *Job) Explain(ctx context.Context, id string) ([]explain.Answer, error) {
	return explain.Explainer{Engine: j.engine, Config: j.Config, Summary: j.report.SummaryName(), Programs: j.host.Programs()}.Rows(ctx, j.rows.Mine(ctx), id)
}

// Recompute computes about n of the finished rows again and compares them with their results. Call Peek first.
func (j *Job) Recompute(ctx context.Context, n int) (found recompute.Found, err error) {
	if names := j.host.Varying(); len(names) > 0 {
		return found, fault.Usage(fmt.Errorf("nothing can be compared: stage %s may give different results when a row is computed again; "+
			"if it does not, write deterministic: true into its options", strings.Join(names, ", ")))
	}
	if err := j.Ready(); err != nil {
		return found, err
	}
	p, err := j.Plan(ctx)
	if err == nil && p.Done == 0 {
		err = fault.Usage(fmt.Errorf("no row of the job, as it is now, is done: there is nothing to compare"))
	}
	if err != nil {
		return found, err
	}
	return recompute.Rows{Engine: j.engine, Rows: j.rows, Predictor: j.Forecast()}.Compare(ctx, p.Done, n)
}

// DescribeColumns describes how the job uses the columns of the input's tables. Call Plan first.
func (j *Job) DescribeColumns() []string { return j.input.Describe() }

// Request returns the request that submits the job to its runner, in a form for people; nil if the runner has none.
func (j *Job) Request(plan planning.Plan) ([]byte, error) { return j.launch.Request(plan) }

// Progress returns the counters of the rows, which change during Run.
func (j *Job) Progress() *engine.Progress { return j.engine.Progress }

// RowsRead returns how many rows of the input the current call of Plan has read.
func (j *Job) RowsRead() int64 { return j.rowsRead.Load() }

// Stop makes Run finish the batches in progress and return.
func (j *Job) Stop() { j.engine.Schedule.Stop() }

// Failures reads the failures table of the output, in its order.
func (j *Job) Failures(ctx context.Context) ([]report.Failed, error) {
	return report.ReadFailures(ctx, j.engine.Store)
}

// Summary reads the summary of the output, and returns it with the output's address.
func (j *Job) Summary(ctx context.Context) (data []byte, output string, err error) {
	data, err = store.ReadFile(ctx, j.engine.Store, j.report.SummaryName())
	return data, j.engine.Store.URL(), err
}

// selects returns the rule that selects the best rows in the tables; nil: none.
func selects(cfg *config.Config) *report.Select {
	if s := cfg.Select; s.Best > 0 {
		return &report.Select{Best: s.Best, Of: s.Of, By: s.By}
	}
	return nil
}
