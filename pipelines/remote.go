package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"latentbeam/internal/engine"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/remote"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// Remote opens the jobs of other processes in this one, which is a worker of an engine such as Flink.
type Remote struct {
	Specs   []stages.Spec
	Version string // of the program: that of the submitter must be the same

	mu   sync.Mutex
	jobs map[string]*remoteJob // by specification
}

// remoteJob is a job that was opened, or why it was not.
type remoteJob struct {
	once sync.Once
	job  *Job
	err  error
}

// Serve makes this process a worker: transforms find the engines of jobs here from now on.
func (r *Remote) Serve() { transforms.Serve(r.open) }

// open returns the engine of a job. It is opened once, with its weights, and stays open as long as the process lives or
// until another job comes; a job that could not be opened for a reason that may pass is tried again.
func (r *Remote) open(text []byte) (*engine.Engine, error) {
	r.mu.Lock()
	j := r.jobs[string(text)]
	if j == nil {
		j = &remoteJob{}
		if r.jobs == nil {
			r.jobs = map[string]*remoteJob{}
		}
		r.jobs[string(text)] = j
	}
	r.mu.Unlock()
	j.once.Do(func() { j.job, j.err = r.openJob(text) })
	if j.err != nil {
		if fault.ExitCode(j.err) == fault.ExitTryAgain {
			r.mu.Lock()
			if r.jobs[string(text)] == j {
				delete(r.jobs, string(text))
			}
			r.mu.Unlock()
		}
		return nil, j.err
	}
	return j.job.engine, nil
}

// Close gives back what the jobs hold.
func (r *Remote) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.job != nil {
			j.job.Close()
		}
	}
	r.jobs = nil
}

// openJob opens a job from its specification.
func (r *Remote) openJob(text []byte) (j *Job, err error) {
	var s spec
	var output string
	defer func() {
		if err != nil {
			err = remote.Here(err)
			remote.Refuse(output, s.Job, err)
		}
	}()
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fault.Usage(fmt.Errorf("the job's specification: %w", err))
	}
	cfg, wrong := s.Start.Config()
	if wrong == nil {
		cfg.From(s.Start.Dir)
		output = cfg.Output.Path
	}
	if s.Version != r.Version {
		return nil, fault.Usage(fmt.Errorf("this worker is latentbeam %s, the job was submitted by %s: give every host the same "+
			"program", r.Version, s.Version))
	}
	if wrong != nil {
		return nil, fault.Usage(wrong)
	}
	if j, err = Open(cfg, Options{Specs: r.Specs, Version: r.Version, Limit: s.Start.Limit, Shard: s.Shard, Shards: s.Shards,
		Retry: s.Retry, Start: s.Start, AllowEmpty: true, worker: true, class: s.Class}); err != nil {
		if fault.ExitCode(err) == fault.ExitFatal { // nobody said what else it is
			err = fault.Usage(err)
		}
		return nil, err
	}
	opened := j
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	w := worker{j, s}
	if err := w.agree(); err != nil {
		return nil, err
	}
	if err := w.attend(context.Background()); err != nil {
		return nil, err
	}
	slog.Info("a job was opened, with its weights", "job", s.Job, "pid", os.Getpid(), "devices", j.engine.Schedule.Pool.Size())
	return j, nil
}

// worker is this process, as one that computes rows of a job that another process has submitted.
type worker struct {
	job  *Job
	spec spec
}

// agree compares what the submitter has found with what this process has.
func (w worker) agree() error {
	s := w.spec
	if class := w.job.engine.Rules.Class; class != s.Class {
		return fault.Usage(fmt.Errorf("this worker computes in class %s, the job is of class %s: bytes would differ; give the job "+
			"hosts of one class", class, s.Class))
	}
	for _, step := range w.job.host.Steps {
		if d := step.Digest(); d != s.Weights[step.Name] {
			return fault.Usage(fmt.Errorf("the weights of %s are others here (digest %s) than where the job was submitted (%s): "+
				"give every host the same model", step.Name, d, s.Weights[step.Name]))
		}
	}
	return nil
}

// attend opens the output for a worker, begins to attend the job, and arranges the weights for the rows that are expected.
func (w worker) attend(ctx context.Context) error {
	j, s := w.job, w.spec
	if err := j.output.Share(ctx, s.Looks, s.Since); err != nil {
		return err
	}
	j.engine.Progress.TooMany = nil // the submitter sums all workers
	j.engine.Published = nil        // it writes the pages, too
	if err := j.marks(true).Recorded(ctx); err != nil {
		return err
	}
	a := remote.Attend(j.engine, s.Job, true)
	j.output.OnRelease(a.Close)
	j.engine.Spread = a.Spread(s.Since, input.Tensors(j.Config, s.Start.Dir))
	if len(s.Rows.Rows) == 0 { // rows get readings alone
		return j.host.Looking().Load(ctx)
	}
	if err := j.host.Arrange(s.Rows.Rows, s.Rows.Elements); err != nil {
		return err
	}
	return j.host.Reload(ctx)
}
