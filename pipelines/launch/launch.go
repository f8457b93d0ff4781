// Package launch computes the rows of a plan with a Beam runner: in this process, or spread over workers, which are other processes.
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

// Launcher computes the rows of a job with its Beam runner.
type Launcher struct {
	Runner runners.Runner
	Spread bool // the runner distributes bundles of rows over processes
	Away   bool // other processes compute; this process computes nothing

	Config  *config.Config
	Start   *jobfile.Start // how the run was started
	Version string         // version of the program
	Limit   int            // number of rows to read from the input; 0: all
	Retry   bool           // computes failed rows again
	Title   string         // title of the job
	Engine  *engine.Engine
	Record  *record.Record

	workers *remote.Overseer // overseer of the last pass; nil: there was none
}

// Find finds the runner of a job and checks that it can run the job. dir is the base of the job's relative paths. worker says that
// another process submitted the job.
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

// maxPasses limits how often a run reads its input. Usually one pass is enough. A run makes another pass if the runner
// dropped a bundle, so that rows are not settled.
const maxPasses = 3

// Compute runs the Beam pipeline. It runs it again, up to maxPasses times, if rows that were started are not settled.
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
	names := stageNames(l.Engine.Schedule.Steps)
	for range maxPasses {
		err := l.Engine.Pass(ctx, func(ctx context.Context) error {
			return l.Runner.Run(ctx, runners.Launch{Pipeline: transforms.Pipeline(spec, names, false), Job: l.Title, Config: l.Config.Runner})
		})
		if err != nil || l.Engine.Settled() || l.Engine.Schedule.Stopping() {
			return err
		}
	}
	return nil // the report counts the rows that are not settled
}

// Workers returns how many workers computed the rows. If they are other processes (away), it also returns their times by stage.
func (l *Launcher) Workers() (n int, times []engine.StageTime, away bool) {
	if l.workers == nil || !l.Away {
		return l.Engine.Schedule.Pool.Size(), nil, false
	}
	return l.workers.Workers(), l.workers.Stages(), true
}
