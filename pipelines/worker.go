package pipelines

import (
	"context"

	"latentbeam/internal/config"
	"latentbeam/pipelines/launch"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// NewWorker returns a worker of an engine such as Flink, which opens the jobs of other processes in this one. version is the program's.
func NewWorker(specs []stages.Spec, version string) *launch.Worker {
	return &launch.Worker{Version: version, Open: func(s launch.Spec, cfg *config.Config) (launch.Job, error) {
		j, err := Open(cfg, Options{Specs: specs, Version: version, Limit: s.Start.Limit, Shard: s.Shard, Shards: s.Shards,
			Retry: s.Retry, Start: s.Start, AllowEmpty: true, worker: true, class: s.Class})
		if err != nil {
			if fault.ExitCode(err) == fault.ExitFatal { // nobody said what else it is
				err = fault.Usage(err)
			}
			return launch.Job{}, err
		}
		err = s.Agree(j.engine)
		if err == nil {
			err = j.attend(context.Background(), s)
		}
		if err != nil {
			j.Close()
			return launch.Job{}, err
		}
		return launch.Job{Engine: j.engine, Close: j.Close}, nil
	}}
}

// attend opens the output for a worker, begins to attend the job, and arranges the weights for the rows that are expected.
func (j *Job) attend(ctx context.Context, s launch.Spec) error {
	if err := j.output.Share(ctx, s.Looks, s.Since); err != nil {
		return err
	}
	j.engine.Progress.TooMany = nil // the submitter sums all workers
	j.engine.Published = nil        // it writes the pages, too
	if err := j.marks(true).Recorded(ctx); err != nil {
		return err
	}
	j.output.OnRelease(s.Attend(j.engine, j.Config))
	if len(s.Rows.Rows) == 0 { // rows get readings alone
		return j.host.Looking().Load(ctx)
	}
	if err := j.host.Arrange(s.Rows.Rows, s.Rows.Elements); err != nil {
		return err
	}
	return j.host.Reload(ctx)
}
