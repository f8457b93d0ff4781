package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/memory"
	"latentbeam/internal/ledger"
	"latentbeam/internal/lend"
	"latentbeam/internal/plan/layout"
	"latentbeam/internal/report"
	"latentbeam/internal/store"
	"latentbeam/kernels"
	"latentbeam/runners"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Options are what a run takes beside its configuration.
type Options struct {
	Specs   []stages.Spec // the catalogue
	Version string        // of the program, for the provenance columns
	Limit   int           // only the first rows of the input; 0: all
	Shard   int           // with Shards: this run's share of the keys
	Shards  int           // 0 and 1: all
	Retry   bool          // compute failed rows again
	Start   Start
	// Devices are those of another machine, that the job is to be planned for; it cannot be run then.
	Devices []layout.Device
	// Look says that the job is only to be planned: devices that others could want are not taken.
	Look bool

	outputs outputs // of tests; the zero value finds the stores of addresses
}

// Job is a configuration with its stages, devices and input opened and checked. Nothing is written
// before Attach.
type Job struct {
	Config *config.Config
	Opts   Options

	engine  *engine.Engine
	steps   []stages.Step
	held    []layout.Held  // how the weights of the steps lie
	over    int64          // what they take beyond the memory that there is
	facts   []memory.Fact  // what an earlier run learned
	local   lend.Pool      // devices of this process, none where all are on other hosts
	fleet   *devices.Fleet // local and the devices of other hosts; nil where there are none
	runner  runners.Runner
	report  report.Job
	spec    []byte
	peeking bool     // the output is only read
	free    []string // locks of others that nobody holds while this run holds its own
	close   []func()
	output  int // where those of close begin that give the output back
}

// Open opens all that a job needs but its output. What is wrong with the configuration, the model or the
// input is reported here, with its place in the file, and nothing has been written.
func Open(cfg *config.Config, o Options) (*Job, error) {
	runner, err := runners.Find(cfg.Runner.Name)
	if err != nil {
		return nil, cfg.Errorf("runner", "%v", err)
	}
	model, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	steps, err := openSteps(cfg, o.Specs, model)
	if err != nil {
		return nil, err
	}
	defaults := withPublished(defaultsOf(cfg, model), steps)
	if err := checkDefaults(cfg, steps, defaults); err != nil {
		return nil, err
	}
	source, err := openSource(cfg, o.Limit)
	if err != nil {
		return nil, err
	}
	j := &Job{Config: cfg, Opts: o, runner: runner}
	if err := j.open(source, steps, model.Name, defaults); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// open opens the devices and puts the job together.
func (j *Job) open(source engine.Source, steps []stages.Step, model string, defaults schemas.PromptRow) error {
	cfg, o := j.Config, j.Opts
	workers, err := j.openDevices(steps, &defaults)
	if err != nil {
		return err
	}
	j.engine = engine.New(steps, workers)
	j.engine.Source, j.engine.MaxBatch, j.engine.Retries = source, int(cfg.Resources.BatchSize), cfg.OnError.Retries
	j.engine.Progress.TooMany, j.engine.Keep, j.engine.Freed = cfg.OnError.Stop, keep(cfg), j.freed
	j.engine.Recall(j.facts)
	if j.engine.Rules, err = j.rules(defaults, steps, workers.Class()); err != nil {
		return cfg.Errorf("stages", "%v", err)
	}
	j.spec, err = json.Marshal(map[string]any{"config": cfg, "shard": o.Shard, "shards": o.Shards, "pid": os.Getpid()})
	if err != nil {
		return fmt.Errorf("open job: %w", err)
	}
	j.report = report.Job{
		Title: filepath.Base(cfg.Output.Path), Rows: j.rows, Keep: j.engine.Keep, Part: part(o),
		RowsPerFile: cfg.Output.RowsPerFile,
		Facts: report.Facts{
			Model: model, Weights: j.engine.Rules.Weights(), Class: workers.Class(), Version: o.Version,
		},
	}
	return j.load()
}

// reload does so again where weights lie otherwise now: what another stage left on a device would be in the way.
func (j *Job) reload(before []layout.Held) error {
	if slices.EqualFunc(before, j.held, layout.Held.Same) {
		return nil
	}
	return j.load()
}

// load brings every stage's weights to a device, so that a checkpoint that does not fit is known first. Workers
// of other hosts have done so.
func (j *Job) load() error {
	if j.local.Capabilities().Planned || j.local.Size() == 0 {
		return nil
	}
	for tries := j.local.Size(); ; tries-- {
		dev, release, err := lend.Lease(context.Background(), j.local)
		if err != nil {
			return err
		}
		err = loadSteps(j.Config, j.engine.Steps, dev)
		release(err == nil)
		if tries <= 1 || !fault.IsDeviceLost(err) { // else the job goes on with those that are left
			return err
		}
		slog.Warn("a device is lost while it is brought its weights", "error", err)
	}
}

// loadSteps brings the weights of stages to a device. The loss of the device says nothing about the weights.
func loadSteps(cfg *config.Config, steps []stages.Step, dev kernels.Backend) error {
	for i, s := range steps {
		err := loadStep(s, dev)
		if fault.IsDeviceLost(err) {
			return err
		}
		if err != nil {
			return cfg.Errorf(fmt.Sprintf("stages.%d", i), "%v", err)
		}
	}
	return nil
}

// loadStep brings the weights of a stage to a device: where they are cut, all the parts that ranks on it can have.
func loadStep(s stages.Step, dev kernels.Backend) error {
	can := s.Capabilities()
	if can.Loading == nil {
		return nil
	}
	if n := can.Shards(); n > 1 {
		if dev.Device() != "cpu" {
			return nil // it has no room for the parts of others; each gets its own with its first batch
		}
		for shard := range n {
			if err := can.Loading.LoadShard(dev, shard); err != nil {
				return err
			}
		}
		return nil
	}
	return can.Loading.Load(dev)
}

func (j *Job) rules(defaults schemas.PromptRow, steps []stages.Step, class string) (engine.Rules, error) {
	kind, _ := j.Config.Input.Source()
	r := engine.Rules{
		Defaults: defaults, Input: sourceKinds[kind], Steps: steps, Class: class,
		Shard: j.Opts.Shard, Shards: j.Opts.Shards,
	}
	if seed := j.Config.Defaults.Seed; seed != nil {
		r.JobSeed = *seed
	}
	return r, r.Seal()
}

// keep says which kinds the job publishes.
func keep(cfg *config.Config) map[stages.Kind]bool {
	k := map[stages.Kind]bool{}
	for _, w := range writes {
		k[w.kind] = cfg.Output.Writes(w.part)
	}
	return k
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
		for e, err := range j.engine.Source.Rows(ctx, false) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			j.engine.Rules.Apply(e)
			if j.engine.Rules.Mine(e) && !yield(e, nil) {
				return
			}
		}
	}
}

// Attach opens the output for writing and takes its lock; a second run on it gets an error that names
// the first. Close gives it back.
func (j *Job) Attach(ctx context.Context) error {
	s, err := j.openOutput(ctx, j.Opts.outputs.write)
	if err != nil {
		return err
	}
	release, err := j.lock(ctx, s)
	if err != nil {
		return err
	}
	j.close = append(j.close, release)
	return j.use(ctx, s)
}

// openOutput opens the store of the output. What is closed from then on belongs to it.
func (j *Job) openOutput(ctx context.Context, open opener) (store.Store, error) {
	j.output = len(j.close)
	s, err := open(ctx, j.Config.Output.Path)
	if err != nil {
		return nil, err
	}
	j.close = append(j.close, func() { s.Close() })
	return s, nil
}

// use opens the ledger of the store.
func (j *Job) use(ctx context.Context, s store.Store) error {
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return err
	}
	j.close = append(j.close, l.Close, j.report.Release)
	j.engine.Store, j.engine.Ledger = s, l
	j.report.Store, j.report.Ledger, j.report.Before = s, l, nil
	if last, err := report.ReadSummary(ctx, s, j.report.SummaryName()); err == nil { // else nothing is known of them
		j.report.Before = last.Files
	}
	return j.forget(ctx, l)
}

// Close gives back what the job holds.
func (j *Job) Close() { j.giveBack(0) }

// detach gives back the output alone.
func (j *Job) detach() {
	j.giveBack(j.output)
	j.peeking = false
}

// giveBack gives back what the job holds but for the first n.
func (j *Job) giveBack(n int) {
	for i := len(j.close) - 1; i >= n; i-- {
		j.close[i]()
	}
	j.close = j.close[:min(n, len(j.close))]
}

// Progress counts what happens to the rows while Run runs.
func (j *Job) Progress() *engine.Progress { return j.engine.Progress }

// Stop makes Run finish what is in flight and return.
func (j *Job) Stop() { j.engine.Stop() }
