package launch

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/remote"
	"latentbeam/schemas/fault"
	"latentbeam/transforms"
)

// Worker opens jobs that other processes submitted. Its process is a worker of an engine such as Flink.
type Worker struct {
	Version string                                  // version of the program; the submitter must have the same
	Open    func(Spec, *config.Config) (Job, error) // opens a job from its parsed configuration

	mu   sync.Mutex
	jobs map[string]*workerJob // by specification
}

// Job is a job that a worker has opened.
type Job struct {
	Engine *engine.Engine
	Close  func()
}

// workerJob is an opened job, or the error of opening it.
type workerJob struct {
	once sync.Once
	job  Job
	err  error
}

// Serve makes this process a worker: from now on, the DoFns in package transforms get the engines of jobs from r.
func (r *Worker) Serve() { transforms.Serve(r.open) }

// open returns the engine of the job with the specification text. It opens the job and loads its weights once, and leaves it open
// until Close. If opening fails with an error that may be temporary, the next call tries again.
func (r *Worker) open(text []byte) (*engine.Engine, error) {
	r.mu.Lock()
	j := r.jobs[string(text)]
	if j == nil {
		j = &workerJob{}
		if r.jobs == nil {
			r.jobs = map[string]*workerJob{}
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
	return j.job.Engine, nil
}

// Close closes all jobs.
func (r *Worker) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.job.Close != nil {
			j.job.Close()
		}
	}
	r.jobs = nil
}

// openJob opens a job from its specification.
func (r *Worker) openJob(text []byte) (j Job, err error) {
	var s Spec
	var output string
	defer func() {
		if err != nil {
			err = remote.WithHost(err)
			remote.ReportRefusal(output, s.Job, err)
		}
	}()
	if err := json.Unmarshal(text, &s); err != nil {
		return j, fault.Usage(fmt.Errorf("the job's specification: %w", err))
	}
	cfg, wrong := s.Start.Config()
	if wrong == nil {
		cfg.RelativeTo(s.Start.Dir)
		output = cfg.Output.Path
	}
	if s.Version != r.Version {
		return j, fault.Usage(fmt.Errorf("this worker is latentbeam %s, the job was submitted by %s: give every host the same "+
			"program", r.Version, s.Version))
	}
	if wrong != nil {
		return j, fault.Usage(wrong)
	}
	if j, err = r.Open(s, cfg); err != nil {
		return j, err
	}
	slog.Info("a job was opened, with its weights", "job", s.Job, "pid", os.Getpid(), "devices", j.Engine.Schedule.Pool.Size())
	return j, nil
}

// Agree returns an error if the engine of this process has another numeric class or other weights than the submitter.
func (s Spec) Agree(e *engine.Engine) error {
	if class := e.Rules.Class; class != s.Class {
		return fault.Usage(fmt.Errorf("this worker computes in class %s, the job is of class %s: bytes would differ; give the job "+
			"hosts of one class", class, s.Class))
	}
	for _, step := range e.Schedule.Steps {
		if d := step.Digest(); d != s.Weights[step.Name] {
			return fault.Usage(fmt.Errorf("the weights of %s on this host (digest %s) differ from those where the job was submitted (%s): "+
				"give every host the same model", step.Name, d, s.Weights[step.Name]))
		}
	}
	return nil
}

// StartAgent starts the agent that reports to the submitter what the engine of this worker does. stop stops it.
func (s Spec) StartAgent(e *engine.Engine, cfg *config.Config) (stop func()) {
	a := remote.StartAgent(e, s.Job, true)
	e.Spread = a.Spread(s.Since, input.Tensors(cfg, s.Start.Dir))
	return a.Close
}
