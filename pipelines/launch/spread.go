package launch

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
	"latentbeam/pipelines/remote"
	"latentbeam/runners"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// Spec is what a DoFn carries of its job: all that a process needs which has not submitted it.
type Spec struct {
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

// spec describes the job to workers, once its rows are known.
func (l *Launcher) spec(plan planning.Plan) ([]byte, error) {
	since := uint32(0) // of an output that is not there yet
	if l.Engine.Ledger != nil {
		since = l.Engine.Ledger.Generation()
	}
	s := Spec{Job: l.Record.ID, Start: *l.Start, Shard: l.Engine.Rules.Shard, Shards: l.Engine.Rules.Shards, Retry: l.Retry,
		Version: l.Version, Class: l.Engine.Rules.Class, Weights: map[string]string{},
		Since: since, Rows: plan.Expected(), Looks: l.Engine.Rules.Earlier}
	s.Start.Dir = l.Start.Directory()
	s.Start.Limit = l.Limit
	for _, step := range l.Engine.Schedule.Steps {
		s.Weights[step.Name] = step.Digest()
	}
	return json.Marshal(s)
}

// Submitter is this process, as one that submits jobs.
func (l *Launcher) Submitter() remote.Submitter {
	return remote.Submitter{Engine: l.Engine, Job: l.Record.ID, Away: l.Away, Name: l.Record.Process()}
}

// spread runs the job on workers of its runner, and takes in what they have done.
func (l *Launcher) spread(ctx context.Context, plan planning.Plan) error {
	text, err := l.spec(plan)
	if err != nil {
		return err
	}
	if err := l.deal(ctx, plan); err != nil || l.Engine.Schedule.Stopping() {
		return errors.Join(err, l.Record.Folder().RemoveRows(ctx))
	}
	ended, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	by := l.Submitter()
	by.Bad = l.Engine.Progress.Failed.Load()
	info := l.Record.Info()
	info.Endpoint = runners.Endpoint(l.Config.Runner)
	o, stop, err := by.Oversee(ctx, info, cancel)
	if err != nil {
		return err
	}
	if !l.Away { // workers are goroutines of this process, with its engine
		a := remote.Attend(l.Engine, l.Record.ID, false)
		defer a.Close()
		l.Engine.Spread = a.Spread(l.Engine.Ledger.Generation(), input.Tensors(l.Config, ""))
		defer transforms.Register(text, l.Engine)()
	}
	launch := l.launch(plan, text)
	launch.Started = func(id string) { o.Started(ctx, id) }
	err = l.Runner.Run(ended, launch)
	stop()
	if ctx.Err() != nil {
		return err
	}
	o.Poll(ctx) // what came last, and why it ended
	o.RecordEnd(ctx)
	if why := context.Cause(ended); why != nil {
		err = why
	}
	l.workers = o
	if failed := errors.Join(l.Engine.Ledger.Refresh(ctx), l.Engine.Book.Refresh(ctx)); failed != nil && err == nil {
		err = failed
	}
	if failed := remote.Clean(ctx, l.Engine.Store, l.Record.ID, false); failed != nil && err == nil {
		err = failed
	}
	return err
}

// deal puts the rows that are to be computed into the output, where workers find them.
func (l *Launcher) deal(ctx context.Context, plan planning.Plan) error {
	dir := l.Start.Directory()
	return l.Record.Folder().WriteRows(ctx, func(add func([]byte) error) error {
		return l.Engine.Deal(ctx, engine.Dealing{
			Rows:  plan.New + plan.Score,
			Parts: l.subtasks(plan),
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
func (l *Launcher) launch(plan planning.Plan, text []byte) runners.Launch {
	return runners.Launch{Pipeline: transforms.Pipeline(text, namesOf(l.Engine.Schedule.Steps), true), Job: l.Title, ID: l.Record.ID,
		Config: l.Config.Runner, Subtasks: l.subtasks(plan)}
}

// Request returns the job as its runner would be sent it, for people; nil where the runner has nothing to show.
func (l *Launcher) Request(plan planning.Plan) ([]byte, error) {
	if !l.Spread || plan.New+plan.Score == 0 {
		return nil, nil
	}
	runners.Init()
	text, err := l.spec(plan)
	if err != nil {
		return nil, err
	}
	return l.Runner.Request(l.launch(plan, text))
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
func (l *Launcher) subtasks(plan planning.Plan) int {
	slots, waves := max(1, l.Config.Runner.Parallelism), l.Config.Runner.Waves
	if waves == 0 {
		batch := 1
		if len(plan.Buckets) > 0 {
			if n, err := l.Engine.Schedule.BatchSize(&plan.Buckets[0].First); err == nil {
				batch = n
			}
		}
		waves = int(min(defaultWaves, max(1, (plan.New+plan.Score)/int64(slots*batch))))
	}
	return slots * waves
}
