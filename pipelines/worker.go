package pipelines

import (
	"context"

	"latentbeam/internal/config"
	"latentbeam/pipelines/launch"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// NewWorker returns a worker for an engine such as Flink. It opens jobs in this process that other processes submitted. version is the
// program's version.
func NewWorker(specs []stages.Spec, version string) *launch.Worker {
	return &launch.Worker{Version: version, Open: func(s launch.Spec, cfg *config.Config) (launch.Job, error) {
		j, err := Open(cfg, Options{Specs: specs, Version: version, Limit: s.Start.Limit, Shard: s.Shard, Shards: s.Shards,
			Retry: s.Retry, Start: s.Start, AllowEmpty: true, worker: true, class: s.Class})
		if err != nil {
			if fault.ExitCode(err) == fault.ExitFatal { // the error has no class
				err = fault.Usage(err)
			}
			return launch.Job{}, err
		}
		err = s.Agree(j.engine)
		if err == nil {
			err = j.startAgent(context.Background(), s)
		}
		if err != nil {
			j.Close()
			return launch.Job{}, err
		}
		return launch.Job{Engine: j.engine, Close: j.Close}, nil
	}}
}

// startAgent opens the output for a worker, starts the worker's agent, and arranges the weights for the expected rows.
func (j *Job) startAgent(ctx context.Context, s launch.Spec) error {
	if err := j.output.Share(ctx, s.Looks, s.Since); err != nil {
		return err
	}
	j.engine.Progress.TooMany = nil // the submitter checks the sum of all workers
	j.engine.Published = nil        // the submitter writes the pages
	if err := j.marks(true).PrepareWorker(ctx); err != nil {
		return err
	}
	j.output.OnRelease(s.StartAgent(j.engine, j.Config))
	if len(s.Rows.Rows) == 0 { // the job computes only readings
		return j.host.Looking().Load(ctx)
	}
	if err := j.host.Arrange(s.Rows.Rows, s.Rows.Elements); err != nil {
		return err
	}
	return j.host.Reload(ctx)
}
