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

// Spec describes a job to a worker process. The DoFns of the pipeline carry it.
type Spec struct {
	Job    string        `json:"job"` // random ID, so that two runs never share an engine
	Start  jobfile.Start `json:"start"`
	Shard  int           `json:"shard,omitempty"`
	Shards int           `json:"shards,omitempty"`
	Retry  bool          `json:"retry,omitempty"`
	// A worker must have equal values of these three.
	Version string            `json:"version"`
	Class   string            `json:"class"`
	Weights map[string]string `json:"weights"` // digests of weights by stage
	// Since is the generation of the ledger at the start of the job.
	Since uint32            `json:"since"`
	Rows  host.ExpectedRows `json:"rows"`
	// Looks are the lists of stages that only measure which may be part of keys in the output.
	Looks []keys.Looks `json:"looks,omitempty"`
}

// spec returns the specification of the job as JSON. The plan gives the expected rows.
func (l *Launcher) spec(plan planning.Plan) ([]byte, error) {
	since := uint32(0) // the output does not exist yet
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

// Submitter returns the submitter that represents this process.
func (l *Launcher) Submitter() remote.Submitter {
	return remote.Submitter{Engine: l.Engine, Job: l.Record.ID, Away: l.Away, Name: l.Record.Process()}
}

// spread runs the job on workers of its runner, and then reads their results from the ledger.
func (l *Launcher) spread(ctx context.Context, plan planning.Plan) error {
	text, err := l.spec(plan)
	if err != nil {
		return err
	}
	if err := l.writeRows(ctx, plan); err != nil || l.Engine.Schedule.Stopping() {
		return errors.Join(err, l.Record.Folder().RemoveRows(ctx))
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	by := l.Submitter()
	by.Bad = l.Engine.Progress.Failed.Load()
	info := l.Record.Info()
	info.Endpoint = runners.Endpoint(l.Config.Runner)
	o, stop, err := by.Oversee(ctx, info, cancel)
	if err != nil {
		return err
	}
	if !l.Away { // the workers are goroutines of this process and use its engine
		a := remote.StartAgent(l.Engine, l.Record.ID, false)
		defer a.Close()
		l.Engine.Spread = a.Spread(l.Engine.Ledger.Generation(), input.Tensors(l.Config, ""))
		defer transforms.Register(text, l.Engine)()
	}
	launch := l.launch(plan, text)
	launch.Started = func(id string) { o.Started(ctx, id) }
	err = l.Runner.Run(running, launch)
	stop()
	if ctx.Err() != nil {
		return err
	}
	o.Poll(ctx) // read the last facts and troubles of the workers
	o.RecordEnd(ctx)
	if why := context.Cause(running); why != nil {
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

// writeRows writes the rows that are to be computed into the output, where the workers read them.
func (l *Launcher) writeRows(ctx context.Context, plan planning.Plan) error {
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

// launch returns what the runner needs to execute the job on workers.
func (l *Launcher) launch(plan planning.Plan, text []byte) runners.Launch {
	return runners.Launch{Pipeline: transforms.Pipeline(text, stageNames(l.Engine.Schedule.Steps), true), Job: l.Title, ID: l.Record.ID,
		Config: l.Config.Runner, Subtasks: l.subtasks(plan)}
}

// Request returns the request that submits the job to its runner, in a form for people; nil if the runner has none.
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

// stageNames returns the names of the stages.
func stageNames(steps []stages.Step) []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return names
}

// defaultWaves is the usual number of subtasks per slot. It is more than one, so that a fast host can compute more subtasks than a
// slow one.
const defaultWaves = 6

// subtasks returns the number of bundles into which the rows are divided. Each bundle has at least the rows of one batch if
// possible, because smaller bundles cost more to start than they save.
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
