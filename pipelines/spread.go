package pipelines

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
	"latentbeam/transforms"
)

// spec is what a DoFn carries of its job: all that a process needs which has not submitted it.
type spec struct {
	Job    string `json:"job"` // random, so that no two runs share an engine
	Start  Start  `json:"start"`
	Shard  int    `json:"shard,omitempty"`
	Shards int    `json:"shards,omitempty"`
	Retry  bool   `json:"retry,omitempty"`
	// What a worker must agree with.
	Version string            `json:"version"`
	Class   string            `json:"class"`
	Weights map[string]string `json:"weights"` // digests, by stage
	Input   engine.Census     `json:"input"`
	// Since is the generation of the ledger with which the job began.
	Since uint32       `json:"since"`
	Rows  expectedRows `json:"rows"`
}

// newJobID names a run.
func newJobID() string { return strings.ToLower(rand.Text()[:16]) }

// elsewhere says that the workers of the job are other processes: this one computes nothing.
func (j *Job) elsewhere() bool {
	return j.spread() && !runners.InLoopback(j.Config.Runner) && !j.Opts.worker
}

// spread says that the bundles of the job are spread over processes.
func (j *Job) spread() bool { return j.runner.Distributed }

// checkSpread refuses what workers of a runner could not do.
func checkSpread(cfg *config.Config, o Options, r runners.Runner) error {
	if !r.Distributed || o.worker {
		return nil
	}
	if len(cfg.Resources.Hosts) > 0 {
		return cfg.Errorf("resources.hosts", "runner %s gives rows to hosts by itself", r.Name).
			WithFix("remove resources.hosts, or use runner: local, whose sets span hosts")
	}
	_, patterns := cfg.Input.Source()
	for _, p := range patterns {
		if p == "-" {
			return cfg.Errorf("input", "a worker of runner %s cannot read the standard input of this process", r.Name).
				WithFix("write the rows to a file that all hosts have")
		}
	}
	for i, s := range cfg.Stages {
		options, err := json.Marshal(s.Options)
		if err != nil {
			return err
		}
		if path := relativePath(options, o.Start.dir()); path != "" {
			return cfg.Errorf(fmt.Sprintf("stages.%d", i), "%s: %q is relative to %s, and workers of runner %s have directories of "+
				"their own", s.Name, path, o.Start.dir(), r.Name).WithFix("give an absolute path, which every host has")
		}
	}
	return nil
}

// relativePath returns a text in a JSON value that names a file relative to dir, "" where there is none.
func relativePath(value []byte, dir string) (found string) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return ""
	}
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			if !strings.Contains(v, "/") || filepath.IsAbs(v) || strings.Contains(v, "://") {
				return
			}
			if _, err := os.Stat(filepath.Join(dir, v)); err == nil {
				found = v
			}
		case []any:
			for _, one := range v {
				look(one)
			}
		case map[string]any:
			for _, one := range v {
				look(one)
			}
		}
	}
	look(v)
	return found
}

// dir is the directory that relative paths are relative to.
func (s Start) dir() string {
	if s.Dir != "" {
		return s.Dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// specOf describes the job to workers, once its rows are known.
func (j *Job) specOf(plan Plan) ([]byte, error) {
	s := spec{Job: j.RunID(), Start: j.Opts.Start, Shard: j.Opts.Shard, Shards: j.Opts.Shards, Retry: j.Opts.Retry,
		Version: j.Opts.Version, Class: j.engine.Rules.Class, Weights: map[string]string{}, Input: plan.census,
		Since: j.engine.Ledger.Generation(), Rows: expectedRows{plan.firsts(), int(min(plan.New, maxElements))}}
	s.Start.Dir = j.Opts.Start.dir()
	s.Start.Limit = j.Opts.Limit
	for _, step := range j.host.Steps {
		s.Weights[step.Name] = step.Digest()
	}
	return json.Marshal(s)
}

// distribute runs the job on workers of its runner, and takes in what they have done.
func (j *Job) distribute(ctx context.Context, plan Plan, names []string) error {
	text, err := j.specOf(plan)
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o, stop, err := j.oversee(ctx, cancel)
	if err != nil {
		return err
	}
	if !j.elsewhere() { // workers are goroutines of this process, with its engine
		a := newAttendant(j.engine, j.RunID(), false)
		defer a.close()
		j.engine.Spread = j.spreadOf(spec{Since: j.engine.Ledger.Generation(), Input: plan.census}, a)
		defer transforms.Register(text, j.engine)()
	}
	err = j.runner.Run(ended, runners.Launch{Pipeline: transforms.Pipeline(text, names, true), Job: j.report.Title,
		Config: j.Config.Runner, Subtasks: j.subtasks(plan), Started: func(id string) { o.started(ctx, id) }})
	stop()
	if ctx.Err() != nil {
		return err
	}
	o.look(ctx) // what came last, and why it ended
	o.ended(ctx)
	if why := context.Cause(ended); why != nil {
		err = why
	}
	j.workers = o
	if failed := j.engine.Ledger.Refresh(ctx); failed != nil && err == nil {
		err = failed
	}
	if failed := cleanWorkers(ctx, j.engine.Store, j.RunID(), false); failed != nil && err == nil {
		err = failed
	}
	return err
}

// Subtasks of a job: several for each slot, so that a fast host takes more of them than a slow one.
const defaultWaves = 6

// subtasks says into how many bundles the rows go. A bundle that no batch fills is not worth its start.
func (j *Job) subtasks(plan Plan) int {
	slots, waves := max(1, j.Config.Runner.Parallelism), j.Config.Runner.Waves
	if waves == 0 {
		batch := 1
		if len(plan.Buckets) > 0 {
			if n, err := j.engine.BatchSize(&plan.Buckets[0].first); err == nil {
				batch = n
			}
		}
		waves = int(min(defaultWaves, max(1, plan.New/int64(slots*batch))))
	}
	return slots * waves
}

// lostRows is the error of a job whose workers have not settled every row.
func (j *Job) lostRows(pending int64) error {
	return fault.TryAgain(fmt.Errorf("%d rows are left although runner %s says that the job is done: run it again, which "+
		"computes these alone", pending, j.runner.Name))
}
