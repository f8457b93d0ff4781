package pipelines

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/pipelines/jobfile"

	"latentbeam/internal/storage/source"

	"latentbeam/internal/results/report"
	"latentbeam/internal/results/tensors"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/internal/watch/runpage"
	"latentbeam/pipelines/explain"
	"latentbeam/pipelines/forecast"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/remote"
	"latentbeam/pipelines/reuse"
	"latentbeam/runners"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// Options are what a run takes beside its configuration.
type Options struct {
	Specs   []stages.Spec // the catalogue
	Version string        // of the program, for the provenance columns
	Limit   int           // only the first rows of the input; 0: all
	Shard   int           // with Shards: this run's share of the keys
	Shards  int           // 0 and 1: all
	Retry   bool          // compute failed rows again
	Start   jobfile.Start
	// AllowEmpty lets an input without any row make an output without any.
	AllowEmpty bool
	// Devices are those of another machine, that the job is to be planned for; it cannot be run then.
	Devices []layout.DeviceModel
	// Look says that the job is only to be planned: devices that others could want are not taken.
	Look bool

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

	outputs outputs // of tests; the zero value finds the stores of addresses
}

// Job is a configuration with its stages, devices and input opened and checked. Nothing is written
// before Attach.
type Job struct {
	Config *config.Config
	Opts   Options

	engine   *engine.Engine
	input    *input.Input
	host     *host.Stages // its stages in this process
	contents source.Contents
	local    devices.Pool   // devices of this process, none where all are on other hosts
	fleet    *devices.Fleet // local and the devices of other hosts; nil where there are none
	runner   runners.Runner
	report   report.Job
	workers  *remote.Overseer                  // of the last pass of a job that is spread; nil: there was none
	peeking  bool                              // the output is only read
	recorder atomic.Pointer[runfiles.Recorder] // nil: nothing is to be computed so far
	ended    atomic.Pointer[runfiles.State]    // nil: the run has not ended
	me       atomic.Pointer[runfiles.Facts]    // who this process is
	runID    string
	foreseen forecast.Foreseen // of the run, before it
	phases   Phases            // of the run
	tally    *runpage.Tally    // where its time goes; nil before
	naming   sync.Once         // of runID
	logs     []string          // of the programs of the run
	before   string            // numeric class of the rows that the output has; "": it has none, or nothing says it
	expected bool              // the board knows what is to be computed
	results  reuse.Results     // of earlier runs, as far as they count
	free     []string          // locks of others that nobody holds while this run holds its own
	close    []func()
	output   int // where those of close begin that give the output back
}

// Open opens all that a job needs but its output. What is wrong with the configuration, the model or the
// input is reported here, with its place in the file, and nothing has been written.
func Open(cfg *config.Config, o Options) (*Job, error) {
	began := time.Now()
	source.StartRun()
	runner, err := runners.Find(cfg.Runner.Name)
	if err != nil {
		return nil, cfg.Errorf("runner", "%v", err)
	}
	if err := runner.Check(cfg); err != nil {
		return nil, err
	}
	if !o.worker {
		if err := remote.Check(cfg, o.Start.Directory(), runner); err != nil {
			return nil, err
		}
	}
	h, err := host.Open(cfg, o.Specs)
	if err != nil {
		return nil, err
	}
	j := &Job{Config: cfg, Opts: o, host: h, runner: runner, close: []func(){h.Close}}
	if err := j.open(); err != nil {
		j.Close()
		return nil, err
	}
	j.phases.Open = time.Since(began)
	return j, nil
}

// open opens the input and the devices and puts the job together.
func (j *Job) open() error {
	j.Opts.outputs.unsafe = j.Config.Output.UnsafeStore
	cfg, o := j.Config, j.Opts
	in := input.New(cfg, o.Limit, j.host.Defaults, j.host.Steps, &j.contents)
	j.input = in
	if err := j.host.CheckDefaults(in.First); err != nil {
		return err
	}
	var source engine.RowSource
	if !o.worker { // a worker of an engine gets its rows from the process that has read them
		var err error
		if source, err = in.Open(o.AllowEmpty); err != nil {
			return err
		}
	}
	workers, err := j.openDevices()
	if err != nil {
		return err
	}
	j.engine = engine.New(j.host.Steps, workers)
	j.engine.Source, j.engine.Schedule.MaxBatch, j.engine.Recovery.Retries = source, int(cfg.Resources.BatchSize), cfg.OnError.Retries
	j.engine.Progress.TooMany, j.engine.Keep, j.engine.Recovery.Freed = cfg.OnError.Stop, host.Keep(cfg), j.host.Freed
	if every, on := cfg.Resources.CheckpointInterval.Every(); on {
		j.engine.SaveSteps(every)
	}
	j.results = reuse.Results{Engine: j.engine, Look: j.look, Limits: j.host.Limits()}
	j.engine.Published = j.results.Published
	j.engine.Schedule.Recall(j.host.Facts)
	if j.engine.Rules, err = j.rules(workers.Class()); err != nil {
		return cfg.Errorf("stages", "%v", err)
	}
	var template *config.NameTemplate
	if cfg.Output.Name != "" {
		if template, err = config.ParseName(cfg.Output.Name); err != nil {
			return cfg.Errorf("output.name", "%v", err)
		}
	}
	var chosen *where.Filter
	if text := cfg.Output.Where; text != "" {
		if cfg.Output.Name == "" {
			return cfg.Errorf("output.where", "output.where chooses the videos that get names, and there is no output.name").
				WithFix("add name: \"{id}\", or remove where; export and copy have --where")
		}
		if chosen, err = where.Parse(text); err != nil {
			return cfg.Errorf("output.where", "%v", err)
		}
	}
	j.report = report.Job{
		Title: filepath.Base(cfg.Output.Path), Rows: j.rows, Keep: j.engine.Keep, Part: part(o),
		RowsPerFile: cfg.Output.RowsPerFile, Names: template, Where: chosen, Clips: cfg.Input.Cuts(), Alike: j.host.Alike(), Limits: j.host.Limits(), Scores: cfg.Output.Scores != "", Measures: measuresOfVideos(j.host.Steps), Select: selects(cfg), Programs: j.programs(),
		Generates: slices.ContainsFunc(j.engine.Schedule.Steps, func(s stages.Step) bool { return s.Spec.Name == "denoise" }),
		Facts: report.Facts{
			Model: j.host.Model, Weights: j.engine.Rules.Weights(), Class: workers.Class(), Version: o.Version,
			Varies: strings.Join(j.varying(), " "), Loras: j.host.LorasJSON(),
			Licence: stages.LicenceOf(j.host.Terms), Revision: stages.RevisionOf(j.host.Terms),
		},
	}
	j.describe()
	if j.elsewhere() {
		return nil
	}
	return j.host.Load(context.Background())
}

func (j *Job) rules(class string) (keys.Rules, error) {
	r := keys.Rules{
		Defaults: j.host.Defaults, Naming: stages.NamingOf(j.host.Steps), Input: host.SourceKind(j.Config), Steps: j.host.Steps, Class: class,
		OneScale: !j.Config.ScalesApart(), Shard: j.Opts.Shard, Shards: j.Opts.Shards, Contents: &j.contents,
	}
	if seed := j.Config.Defaults.Seed; seed != nil {
		r.JobSeed = *seed
	}
	return r, r.Seal()
}

// programs are the names of the stages that are programs.
func (j *Job) programs() (names []string) {
	for _, s := range j.engine.Schedule.Steps {
		if s.Spec.Program != nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// part names the files of one shard: "00001-of-00004-", counting from 0 as parquet writers do.
func part(o Options) string {
	if o.Shards <= 1 {
		return ""
	}
	return fmt.Sprintf("%05d-of-%05d-", o.Shard, o.Shards)
}

// rows yields this shard's rows, filled, checked and keyed, without tensors.
func (j *Job) rows(ctx context.Context) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range j.all(ctx) {
			if (err != nil || j.engine.Rules.Mine(e)) && !yield(e, err) {
				return
			}
		}
	}
}

// all yields the rows of all shards, like rows.
func (j *Job) all(ctx context.Context) iter.Seq2[*stages.Element, error] { return j.keyed(ctx, false) }

// keyed is all, with tensors where they are wanted.
func (j *Job) keyed(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error] {
	return keyedBy(ctx, j.engine.Source, &j.engine.Rules, tensors)
}

// Attach opens the output for writing and takes its lock; a second run on it gets an error that names
// the first. Close gives it back.
func (j *Job) Attach(ctx context.Context) error {
	if err := j.Ready(); err != nil {
		return err
	}
	s, err := j.openOutput(ctx, j.Opts.outputs.write)
	if err != nil {
		return err
	}
	if err := j.alone(s); err != nil {
		return err
	}
	release, err := j.lock(ctx, s)
	if err != nil {
		return err
	}
	j.close = append(j.close, release)
	return j.use(ctx, s, true)
}

// Ready says what this host lacks to compute the job, such as the program of a stage; nil: nothing. Attach asks it.
func (j *Job) Ready() error {
	if j.elsewhere() || j.local.Size() == 0 { // others compute
		return nil
	}
	return j.host.Ready()
}

// openOutput opens the store of the output. What is closed from then on belongs to it.
func (j *Job) openOutput(ctx context.Context, open func(context.Context, string) (store.Store, error)) (store.Store, error) {
	j.output = len(j.close)
	s, err := open(ctx, j.Config.Output.Path)
	if err != nil {
		return nil, err
	}
	j.close = append(j.close, func() { s.Close() })
	return s, nil
}

// use opens the ledger of the store; alone says that this job has the lock.
func (j *Job) use(ctx context.Context, s store.Store, alone bool) error {
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return err
	}
	w, err := fingerprints.LoadWitness(ctx, s)
	if err != nil {
		l.Close()
		return err
	}
	output := &fingerprints.Output{Store: s, Witness: w}
	home := &tensors.Home{Output: output, Ledger: l}
	if last, err := report.ReadSummary(ctx, s, j.report.SummaryName()); err == nil { // else nothing is known of them
		home.Before = last.Files
	}
	j.close = append(j.close, l.Close, home.Close)
	j.engine.Store, j.engine.Ledger = s, l
	j.report.Output, j.report.Ledger, j.report.Tensors, j.results.Tensors = output, l, home, home
	if err := j.results.Mend(ctx, l, alone && j.report.Part == ""); err != nil { // else others use it too
		return err
	}
	if alone {
		if err := home.Check(ctx, j.look()); err != nil {
			return err
		}
	}
	if j.engine.Earlier, err = j.results.Forget(ctx, l, j.Opts.Retry); err != nil {
		return err
	}
	if err := j.recallLooks(ctx, s, l); err != nil {
		return err
	}
	if j.engine.Book, err = engine.OpenBook(ctx, s, &j.engine.Rules, j.Opts.Start.Shown); err != nil {
		return err
	}
	j.close = append(j.close, j.engine.Book.Close)
	if alone && j.Opts.Shards <= 1 {
		if err := j.engine.Book.Mend(ctx); err != nil {
			return err
		}
	}
	if j.Opts.Retry {
		j.engine.Book.Retry()
	}
	if j.report.Looks = j.engine.Book.Names(); j.engine.Book.Looks() || len(j.engine.Rules.Earlier) > 0 {
		j.report.Recall = j.engine.Book.Recall
	}
	if len(j.engine.Rules.Earlier) > 0 { // readings in results count where the job has their measures
		j.report.Looks = append(j.report.Looks, "earlier")
	}
	return j.keepIDs(ctx)
}

// look says how closely this job looks at what is there. Who only looks at an output reads no videos.
func (j *Job) look() fingerprints.Look {
	switch {
	case j.peeking:
		return fingerprints.LookAtSizes
	case j.Opts.Repair || j.Config.Output.Verify == config.VerifyDigest:
		return fingerprints.LookAtAll
	}
	return fingerprints.LookAtMarks
}

// Close gives back what the job holds.
func (j *Job) Close() { j.giveBack(0) }

// detach gives back the output alone.
func (j *Job) detach() {
	j.giveBack(j.output)
	j.peeking = false
	j.engine.Rules.Known, j.engine.Book, j.report.Recall = nil, nil, nil
}

// giveBack gives back what the job holds but for the first n.
func (j *Job) giveBack(n int) {
	for i := len(j.close) - 1; i >= n; i-- {
		j.close[i]()
	}
	j.close = j.close[:min(n, len(j.close))]
}

// forecast is what predicts the job.
func (j *Job) forecast() *forecast.Predictor {
	return &forecast.Predictor{Config: j.Config, Engine: j.engine, Host: j.host, Local: j.local, Fleet: j.fleet}
}

// Devices returns the devices that the job is planned for.
func (j *Job) Devices(p Plan) ([]layout.DeviceModel, error) { return j.forecast().Devices(p.Work) }

// Predict plays the run of the new rows through. With others, layouts list what was not chosen, which takes longer.
func (j *Job) Predict(ctx context.Context, p Plan, others bool) (forecast.Prediction, error) {
	return j.forecast().Predict(ctx, p.Work, others)
}

// Sample computes a row of every shape of the plan with few sampling steps, looks at its size, and throws it away.
func (j *Job) Sample(ctx context.Context, p Plan, f forecast.Prediction) (forecast.Sample, error) {
	return j.forecast().Sample(ctx, p.Work, f)
}

// Histogram lists the shapes of the clips that the job cuts of its media, by size and length.
func (j *Job) Histogram(p Plan) ([]forecast.ClipsOf, error) { return j.forecast().Clips(p.Clips) }

// Program is the name of the first stage that is a program, "" where none is.
func (j *Job) Program() string { return stages.FirstProgram(j.engine.Schedule.Steps) }

// Explain says what became of the rows that id names: by their id, by their place in the input ("prompts.csv:3") or by
// the first eight or more digits of their key. The job has looked at its output (Peek).
func (j *Job) Explain(ctx context.Context, id string) ([]explain.Answer, error) {
	return explain.Asked{Engine: j.engine, Config: j.Config, Summary: j.report.SummaryName(), Programs: j.programs()}.Rows(ctx, j.rows(ctx), id)
}

// DescribeColumns says how the columns of the input's tables are taken. The job has a plan.
func (j *Job) DescribeColumns() []string { return j.input.Describe() }

// Progress counts what happens to the rows while Run runs.
func (j *Job) Progress() *engine.Progress { return j.engine.Progress }

// Stop makes Run finish what is in flight and return.
func (j *Job) Stop() { j.engine.Schedule.Stop() }
