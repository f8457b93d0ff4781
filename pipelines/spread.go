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
	"latentbeam/internal/watch/runfiles"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/jobfile"
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

// elsewhere says that the workers of the job are other processes: this one computes nothing.
func (j *Job) elsewhere() bool {
	return j.spread() && !runners.InLoopback(j.Config.Runner) && !j.Opts.worker
}

// spread says that the bundles of the job are spread over processes.
func (j *Job) spread() bool { return j.runner.Distributed }

// specOf describes the job to workers, once its rows are known.
func (j *Job) specOf(plan Plan) ([]byte, error) {
	since := uint32(0) // of an output that is not there yet
	if j.engine.Ledger != nil {
		since = j.engine.Ledger.Generation()
	}
	s := spec{Job: j.RunID(), Start: j.Opts.Start, Shard: j.Opts.Shard, Shards: j.Opts.Shards, Retry: j.Opts.Retry,
		Version: j.Opts.Version, Class: j.engine.Rules.Class, Weights: map[string]string{},
		Since: since, Rows: plan.Expected(), Looks: j.engine.Rules.Earlier}
	s.Start.Dir = j.Opts.Start.Directory()
	s.Start.Limit = j.Opts.Limit
	for _, step := range j.host.Steps {
		s.Weights[step.Name] = step.Digest()
	}
	return json.Marshal(s)
}

// submitter is this process, as one that submits jobs.
func (j *Job) submitter() remote.Submitter {
	s := remote.Submitter{Engine: j.engine, Job: j.RunID(), Away: j.elsewhere()}
	if me := j.me.Load(); me != nil {
		s.Name = me.Process
	}
	return s
}

// distribute runs the job on workers of its runner, and takes in what they have done.
func (j *Job) distribute(ctx context.Context, plan Plan, names []string) error {
	text, err := j.specOf(plan)
	if err != nil {
		return err
	}
	if err := j.deal(ctx, plan); err != nil || j.engine.Schedule.Stopping() {
		return errors.Join(err, runfiles.Folder{Store: j.engine.Store, ID: j.RunID()}.RemoveRows(ctx))
	}
	ended, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	by := j.submitter()
	by.Bad = j.engine.Progress.Failed.Load()
	info := j.runInfo()
	info.Endpoint = runners.Endpoint(j.Config.Runner)
	o, stop, err := by.Oversee(ctx, info, cancel)
	if err != nil {
		return err
	}
	if !j.elsewhere() { // workers are goroutines of this process, with its engine
		a := remote.Attend(j.engine, j.RunID(), false)
		defer a.Close()
		j.engine.Spread = a.Spread(j.engine.Ledger.Generation(), input.Tensors(j.Config, ""))
		defer transforms.Register(text, j.engine)()
	}
	launch := j.launch(plan, text, names)
	launch.Started = func(id string) { o.Started(ctx, id) }
	err = j.runner.Run(ended, launch)
	stop()
	if ctx.Err() != nil {
		return err
	}
	o.Poll(ctx) // what came last, and why it ended
	o.RecordEnd(ctx)
	if why := context.Cause(ended); why != nil {
		err = why
	}
	j.workers = o
	if failed := errors.Join(j.engine.Ledger.Refresh(ctx), j.engine.Book.Refresh(ctx)); failed != nil && err == nil {
		err = failed
	}
	if failed := remote.Clean(ctx, j.engine.Store, j.RunID(), false); failed != nil && err == nil {
		err = failed
	}
	return err
}

// deal puts the rows that are to be computed into the output, where workers find them.
func (j *Job) deal(ctx context.Context, plan Plan) error {
	dir := j.Opts.Start.Directory()
	return runfiles.Folder{Store: j.engine.Store, ID: j.RunID()}.WriteRows(ctx, func(add func([]byte) error) error {
		return j.engine.Deal(ctx, engine.Dealing{
			Rows:  plan.New + plan.Score,
			Parts: j.subtasks(plan),
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
func (j *Job) launch(plan Plan, text []byte, names []string) runners.Launch {
	return runners.Launch{Pipeline: transforms.Pipeline(text, names, true), Job: j.report.Title, ID: j.RunID(),
		Config: j.Config.Runner, Subtasks: j.subtasks(plan)}
}

// Request returns the job as its runner would be sent it, for people; nil where the runner has nothing to show.
func (j *Job) Request(plan Plan) ([]byte, error) {
	if !j.spread() || plan.New+plan.Score == 0 {
		return nil, nil
	}
	runners.Init()
	text, err := j.specOf(plan)
	if err != nil {
		return nil, err
	}
	return j.runner.Request(j.launch(plan, text, j.names()))
}

// names are those of the job's stages.
func (j *Job) names() []string {
	names := make([]string, len(j.engine.Schedule.Steps))
	for i, s := range j.engine.Schedule.Steps {
		names[i] = s.Name
	}
	return names
}

// Subtasks of a job: several for each slot, so that a fast host takes more of them than a slow one.
const defaultWaves = 6

// subtasks says into how many bundles the rows go. A bundle that no batch fills is not worth its start.
func (j *Job) subtasks(plan Plan) int {
	slots, waves := max(1, j.Config.Runner.Parallelism), j.Config.Runner.Waves
	if waves == 0 {
		batch := 1
		if len(plan.Buckets) > 0 {
			if n, err := j.engine.Schedule.BatchSize(&plan.Buckets[0].First); err == nil {
				batch = n
			}
		}
		waves = int(min(defaultWaves, max(1, (plan.New+plan.Score)/int64(slots*batch))))
	}
	return slots * waves
}
