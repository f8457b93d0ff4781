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

// Options are what a run takes beside its configuration.
type Options struct {
	Specs   []stages.Spec // the catalogue
	Version string        // of the program, for the provenance columns
	Limit   int           // only the first rows of the input; 0: all
	// AllFailures lets a plan name all rows that cannot be computed as they are, not the first alone.
	AllFailures bool
	Shard       int  // with Shards: this run's share of the keys
	Shards      int  // 0 and 1: all
	Retry       bool // compute failed rows again
	Start       jobfile.Start
	// AllowEmpty lets an input without any row make an output without any.
	AllowEmpty bool
	// Devices are those of another machine, that the job is to be planned for; it cannot be run then.
	Devices []layout.DeviceModel
	// Look says that the job is only to be planned: devices that others could want are not taken.
	Look bool
	// PlanOnly lets a job be planned whose model has configurations and no weights. It cannot be attached to its output then.
	PlanOnly bool

	// Repair reads every file of the output, for any configuration, and computes damaged or missing results of rows
	// that earlier runs have done; other rows that are new are an error before anything is computed.
	Repair bool
	// ScoreOnly lets measures look at finished rows and computes no others; it is an error before anything is computed where there are some.
	// Tables go on to show the readings when the job runs without these measures.
	ScoreOnly bool
	// CancelOthers ends a job of an earlier run that an engine is still at work on, instead of following it.
	CancelOthers bool

	// NewClass lets a job compute rows anew in another numeric class than that of the output.
	NewClass bool
	// NewMeaning lets a job compute rows anew that the output has under an earlier meaning of the job or its tables.
	NewMeaning bool

	// AsRecorded takes the marks that the output's record says, whatever the job asks for.
	AsRecorded bool

	worker bool   // another process has submitted the job
	class  string // that of the submitter, where worker

	stores output.Stores // of tests; the zero value finds the stores of addresses
}

// Job is a configuration with its stages, devices and input opened and checked. Nothing is written
// before Attach.
type Job struct {
	Config *config.Config
	Opts   Options
	Record *record.Record // of its run

	engine   *engine.Engine
	input    *input.Input
	rows     input.Rows
	host     *host.Stages // its stages in this process
	machines hardware.Machines
	launch   launch.Launcher
	output   output.Output
	report   report.Job
	foreseen forecast.Foreseen // of the run, before it
	phases   record.Phases     // of the run
	before   string            // numeric class of the rows that the output has; "": it has none, or nothing says it
	close    []func()
	looked   atomic.Int64 // rows that the plan in the making has seen
}

// Open opens all that a job needs but its output. What is wrong with the configuration, the model or the
// input is reported here, with its place in the file, and nothing has been written.
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

// open opens the input and the devices and puts the job together.
func (j *Job) open() (err error) {
	j.Opts.stores.Unsafe = j.Config.Output.UnsafeStore
	cfg, o := j.Config, j.Opts
	in := input.New(cfg, o.Limit, j.host.Defaults, j.host.Steps)
	j.input = in
	if err := j.host.CheckDefaults(in.First); err != nil {
		return err
	}
	var source engine.RowSource
	if !o.worker { // a worker of an engine gets its rows from the process that has read them
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
		Limits: j.host.Limits(), ScoreOnly: o.ScoreOnly, Retry: o.Retry, Closely: o.Repair || cfg.Output.Verify == config.VerifyDigest,
		Several: o.Shards > 1 || j.launch.Away, SharesNames: in.SharesNames}
	j.report.TensorFacts, j.report.HalfLatents = j.host.TensorFacts()
	if j.launch.Away || j.loadsLater() || len(j.host.Lacks) > 0 {
		return nil
	}
	return j.host.Load(context.Background())
}

// openDevices opens the devices of this process, finds those of the workers on other hosts, and arranges the weights on them.
func (j *Job) openDevices() (err error) {
	if !j.Opts.worker {
		j.before = j.Opts.stores.Class(context.Background(), j.Config.Output.Path, output.Part(j.Opts.Shard, j.Opts.Shards))
	}
	if j.machines, err = hardware.Open(hardware.Wanted{Config: j.Config, Start: j.Opts.Start, Steps: j.host.Steps, Planned: j.Opts.Devices,
		Look: j.Opts.Look, Away: j.launch.Away, Class: j.Opts.class, Before: j.before}); err != nil {
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

// videosAtOnce is how many files of videos of the input are in memory for a device. Measures look at one after the other, so that more
// would gain nothing.
const videosAtOnce = 8

// loadsLater reports whether weights come to devices once it is known which rows are to be computed: where an output is there, it may
// be that none is, or that they get readings alone. A job with a new output hears at once of a checkpoint that does not fit.
func (j *Job) loadsLater() bool { return j.Opts.worker || !j.Opts.Look && j.before != "" }

// Attach opens the output for writing and takes its lock; a second run on it gets an error that names
// the first. Close gives it back.
func (j *Job) Attach(ctx context.Context) error {
	if len(j.host.Lacks) > 0 {
		return fault.Usage(fmt.Errorf("not here: %s; the job can be planned, and not be run", strings.Join(j.host.Lacks, ", ")))
	}
	if err := j.Ready(); err != nil {
		return err
	}
	return j.output.Attach(ctx, nil)
}

// Peek opens an output that is already there, only to read it; without one there is nothing done yet.
func (j *Job) Peek(ctx context.Context) error {
	return j.output.Again(func() error { return j.output.Peek(ctx) })
}

// Ready says what this host lacks to compute the job, such as the program of a stage; nil: nothing. Attach asks it.
func (j *Job) Ready() error {
	if j.launch.Away || j.machines.Local.Size() == 0 { // others compute
		return nil
	}
	return j.host.Ready()
}

// Close gives back what the job holds.
func (j *Job) Close() {
	j.output.Release()
	for i := len(j.close) - 1; i >= 0; i-- {
		j.close[i]()
	}
	j.close = nil
}

// Forecast is what predicts the job.
func (j *Job) Forecast() *forecast.Predictor {
	return &forecast.Predictor{Config: j.Config, Engine: j.engine, Host: j.host, Local: j.machines.Local, Fleet: j.machines.Fleet}
}

// ForecastScores is what predicts the readings of rows that are done (Plan.Scores). It knows the stages that only look, whose weights
// alone a run brings to devices that makes no result.
func (j *Job) ForecastScores() *forecast.Predictor {
	f := j.Forecast()
	f.Host = j.host.Looking()
	f.Engine = engine.New(f.Host.Steps, j.engine.Schedule.Pool)
	f.Engine.Schedule.MaxBatch = j.engine.Schedule.MaxBatch
	return f
}

// Program is the name of the first stage that is a program, "" where none is.
func (j *Job) Program() string { return stages.FirstProgram(j.engine.Schedule.Steps) }

// Explain says what became of the rows that id names: by their id, by their place in the input ("prompts.csv:3") or by
// the first eight or more digits of their key. The job has looked at its output (Peek).
func (j *Job) Explain(ctx context.Context, id string) ([]explain.Answer, error) {
	return explain.Asked{Engine: j.engine, Config: j.Config, Summary: j.report.SummaryName(), Programs: j.host.Programs()}.Rows(ctx, j.rows.Mine(ctx), id)
}

// Recompute computes about n of the rows again that are done, and compares them with their results. The job has looked at its output (Peek).
func (j *Job) Recompute(ctx context.Context, n int) (found recompute.Found, err error) {
	if names := j.host.Varying(); len(names) > 0 {
		return found, fault.Usage(fmt.Errorf("nothing can be compared: the results of stage %s may be others when a row is computed again; "+
			"where they are not, write deterministic: true into its options", strings.Join(names, ", ")))
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

// DescribeColumns says how the columns of the input's tables are taken. The job has a plan.
func (j *Job) DescribeColumns() []string { return j.input.Describe() }

// Request returns the job as its runner would be sent it, for people; nil where the runner has nothing to show.
func (j *Job) Request(plan planning.Plan) ([]byte, error) { return j.launch.Request(plan) }

// Progress counts what happens to the rows while Run runs.
func (j *Job) Progress() *engine.Progress { return j.engine.Progress }

// Looked is how many rows of the input the plan that is being made has seen.
func (j *Job) Looked() int64 { return j.looked.Load() }

// Stop makes Run finish what is in flight and return.
func (j *Job) Stop() { j.engine.Schedule.Stop() }

// Failures reads the failures of the output, in the order of its table.
func (j *Job) Failures(ctx context.Context) ([]report.Failed, error) {
	return report.ReadFailures(ctx, j.engine.Store)
}

// Summary reads the summary of the output, and where it is.
func (j *Job) Summary(ctx context.Context) (data []byte, output string, err error) {
	data, err = store.ReadFile(ctx, j.engine.Store, j.report.SummaryName())
	return data, j.engine.Store.URL(), err
}

// selects says which rows tables mark, nil for none.
func selects(cfg *config.Config) *report.Select {
	if s := cfg.Select; s.Best > 0 {
		return &report.Select{Best: s.Best, Of: s.Of, By: s.By}
	}
	return nil
}
