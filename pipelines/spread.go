package pipelines

import (
	"context"
	"encoding/json"
	"errors"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/coder"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/engine/keys"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/planning"
	"latentbeam/pipelines/record"
	"latentbeam/pipelines/remote"
	"latentbeam/runners"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// spec is what a DoFn carries of its job: all that a process needs which has not submitted it.
type spec struct {
	Job    string        `json:"job"` // random, so that no two runs share an engine
	Start  jobfile.Start `json:"start"`
	Shard  int           `json:"shard,omitempty"`
	Shards int           `json:"shards,omitempty"`
	Retry  bool          `json:"retry,omitempty"`
	// What a worker must agree with.
	Version string            `json:"version"`
	Class   string            `json:"class"`
	Weights map[string]string `json:"weights"` // digests, by stage
	// Since is the generation of the ledger with which the job began.
	Since uint32            `json:"since"`
	Rows  host.ExpectedRows `json:"rows"`
	// Looks are the lists under which the output may have rows.
	Looks []keys.Looks `json:"looks,omitempty"`
}

// distribution spreads the rows of a job over the workers of its runner.
type distribution struct {
	on      bool // bundles of the job are spread over processes
	away    bool // the workers are other processes: this one computes nothing
	config  *config.Config
	options *Options
	engine  *engine.Engine
	runner  runners.Runner
	record  *record.Record
	title   string
	workers *remote.Overseer // of the last pass; nil: there was none
}

// spec describes the job to workers, once its rows are known.
func (d *distribution) spec(plan planning.Plan) ([]byte, error) {
	since := uint32(0) // of an output that is not there yet
	if d.engine.Ledger != nil {
		since = d.engine.Ledger.Generation()
	}
	s := spec{Job: d.record.ID, Start: d.options.Start, Shard: d.options.Shard, Shards: d.options.Shards, Retry: d.options.Retry,
		Version: d.options.Version, Class: d.engine.Rules.Class, Weights: map[string]string{},
		Since: since, Rows: plan.Expected(), Looks: d.engine.Rules.Earlier}
	s.Start.Dir = d.options.Start.Directory()
	s.Start.Limit = d.options.Limit
	for _, step := range d.engine.Schedule.Steps {
		s.Weights[step.Name] = step.Digest()
	}
	return json.Marshal(s)
}

// submitter is this process, as one that submits jobs.
func (d *distribution) submitter() remote.Submitter {
	return remote.Submitter{Engine: d.engine, Job: d.record.ID, Away: d.away, Name: d.record.Process()}
}

// run runs the job on workers of its runner, and takes in what they have done.
func (d *distribution) run(ctx context.Context, plan planning.Plan) error {
	text, err := d.spec(plan)
	if err != nil {
		return err
	}
	if err := d.deal(ctx, plan); err != nil || d.engine.Schedule.Stopping() {
		return errors.Join(err, d.record.Folder().RemoveRows(ctx))
	}
	ended, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	by := d.submitter()
	by.Bad = d.engine.Progress.Failed.Load()
	info := d.record.Info()
	info.Endpoint = runners.Endpoint(d.config.Runner)
	o, stop, err := by.Oversee(ctx, info, cancel)
	if err != nil {
		return err
	}
	if !d.away { // workers are goroutines of this process, with its engine
		a := remote.Attend(d.engine, d.record.ID, false)
		defer a.Close()
		d.engine.Spread = a.Spread(d.engine.Ledger.Generation(), input.Tensors(d.config, ""))
		defer transforms.Register(text, d.engine)()
	}
	launch := d.launch(plan, text)
	launch.Started = func(id string) { o.Started(ctx, id) }
	err = d.runner.Run(ended, launch)
	stop()
	if ctx.Err() != nil {
		return err
	}
	o.Poll(ctx) // what came last, and why it ended
	o.RecordEnd(ctx)
	if why := context.Cause(ended); why != nil {
		err = why
	}
	d.workers = o
	if failed := errors.Join(d.engine.Ledger.Refresh(ctx), d.engine.Book.Refresh(ctx)); failed != nil && err == nil {
		err = failed
	}
	if failed := remote.Clean(ctx, d.engine.Store, d.record.ID, false); failed != nil && err == nil {
		err = failed
	}
	return err
}

// deal puts the rows that are to be computed into the output, where workers find them.
func (d *distribution) deal(ctx context.Context, plan planning.Plan) error {
	dir := d.options.Start.Directory()
	return d.record.Folder().WriteRows(ctx, func(add func([]byte) error) error {
		return d.engine.Deal(ctx, engine.Dealing{
			Rows:  plan.New + plan.Score,
			Parts: d.subtasks(plan),
			Twice: plan.Twice,
			Away: func(row *schemas.PromptRow) {
				for _, path := range []*string{&row.Media, &row.Reference, &row.Noise} {
					*path = config.Absolute(dir, *path)
				}
			},
			Put: func(b *stages.Batch) error {
				data, err := coder.PackBlock(b)
				if err != nil {
					return err
				}
				return add(data)
			},
		})
	})
}

// launch is the execution of a job that is spread.
func (d *distribution) launch(plan planning.Plan, text []byte) runners.Launch {
	return runners.Launch{Pipeline: transforms.Pipeline(text, namesOf(d.engine.Schedule.Steps), true), Job: d.title, ID: d.record.ID,
		Config: d.config.Runner, Subtasks: d.subtasks(plan)}
}

// request returns the job as its runner would be sent it, for people; nil where the runner has nothing to show.
func (d *distribution) request(plan planning.Plan) ([]byte, error) {
	if !d.on || plan.New+plan.Score == 0 {
		return nil, nil
	}
	runners.Init()
	text, err := d.spec(plan)
	if err != nil {
		return nil, err
	}
	return d.runner.Request(d.launch(plan, text))
}

// namesOf are the names of stages.
func namesOf(steps []stages.Step) []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return names
}

// Subtasks of a job: several for each slot, so that a fast host takes more of them than a slow one.
const defaultWaves = 6

// subtasks says into how many bundles the rows go. A bundle that no batch fills is not worth its start.
func (d *distribution) subtasks(plan planning.Plan) int {
	slots, waves := max(1, d.config.Runner.Parallelism), d.config.Runner.Waves
	if waves == 0 {
		batch := 1
		if len(plan.Buckets) > 0 {
			if n, err := d.engine.Schedule.BatchSize(&plan.Buckets[0].First); err == nil {
				batch = n
			}
		}
		waves = int(min(defaultWaves, max(1, (plan.New+plan.Score)/int64(slots*batch))))
	}
	return slots * waves
}
