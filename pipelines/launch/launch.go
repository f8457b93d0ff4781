// Package launch has the rows of a plan computed by a Beam runner: in this process, or spread over workers, which are other processes.
package launch

import (
	"context"
	"fmt"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/schedule"
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/planning"
	"latentbeam/pipelines/record"
	"latentbeam/pipelines/remote"
	"latentbeam/runners"
	"latentbeam/transforms"
)

// Launcher runs the rows of a job on its Beam runner.
type Launcher struct {
	Runner runners.Runner
	Spread bool // bundles of the job are spread over processes
	Away   bool // the workers are other processes: this one computes nothing

	Config  *config.Config
	Start   *jobfile.Start // of the run
	Version string         // of the program
	Limit   int            // on the rows of the input
	Retry   bool           // failed rows are computed again
	Title   string         // of the job
	Engine  *engine.Engine
	Record  *record.Record

	workers *remote.Overseer // of the last pass; nil: there was none
}

// Find finds the runner of a job, which can run it. dir is the base of the job's relative paths; worker says that another process
// has submitted the job.
func Find(cfg *config.Config, dir string, worker bool) (l Launcher, err error) {
	runner, err := runners.Find(cfg.Runner.Name)
	if err != nil {
		return l, cfg.Errorf("runner", "%v", err)
	}
	if err := runner.Check(cfg); err != nil {
		return l, err
	}
	if !worker {
		if err := remote.Check(cfg, dir, runner); err != nil {
			return l, err
		}
	}
	return Launcher{Runner: runner, Config: cfg, Spread: runner.Distributed,
		Away: runner.Distributed && !runners.InLoopback(cfg.Runner) && !worker}, nil
}

// maxPasses bounds how often a run goes over its input. One pass is the rule; another follows when rows
// are left that a runner dropped with a bundle.
const maxPasses = 3

// Compute runs the Beam pipeline, again while it has not settled all that it began.
func (l *Launcher) Compute(ctx context.Context, plan planning.Plan) error {
	if plan.New == 0 && plan.Score == 0 {
		return nil
	}
	runners.Init()
	for _, b := range plan.Buckets {
		l.Engine.Expected = append(l.Engine.Expected, schedule.Expected{Row: b.First, Rows: int(b.Rows)})
	}
	if l.Spread {
		return l.spread(ctx, plan)
	}
	rules := &l.Engine.Rules
	spec := fmt.Appendf(nil, "%s %s %d/%d", l.Engine.Store.URL(), l.Record.ID, rules.Shard, rules.Shards) // shards have one ID
	defer transforms.Register(spec, l.Engine)()
	names := namesOf(l.Engine.Schedule.Steps)
	for range maxPasses {
		err := l.Engine.Pass(ctx, func(ctx context.Context) error {
			return l.Runner.Run(ctx, runners.Launch{Pipeline: transforms.Pipeline(spec, names, false), Job: l.Title, Config: l.Config.Runner})
		})
		if err != nil || l.Engine.Settled() || l.Engine.Schedule.Stopping() {
			return err
		}
	}
	return nil // the report finds what is left
}

// Workers returns how many workers computed the rows. Where they are other processes (away), it also returns where their time went.
func (l *Launcher) Workers() (n int, times []engine.StageTime, away bool) {
	if l.workers == nil || !l.Away {
		return l.Engine.Schedule.Pool.Size(), nil, false
	}
	return l.workers.Workers(), l.workers.Stages(), true
}
