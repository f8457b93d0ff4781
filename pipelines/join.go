package pipelines

import (
	"context"
	"errors"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/storage/store"
)

// join writes one report of all shards in place of their own reports. The shard that ends last does this. join reports
// false if rows are not settled or another run holds a lock of the output. Afterwards the job covers the rows of all
// shards.
func (j *Job) join(ctx context.Context) (bool, error) {
	j.output.Detach()
	j.unshard()
	if err := j.Peek(ctx); err != nil { // without a lock, because a lock would stop a shard that starts now
		return false, err
	}
	plan, err := j.Plan(ctx)
	j.output.Detach()
	if err != nil || plan.New > 0 || plan.Score > 0 {
		return false, err
	}
	if locked, err := j.attachRetrying(ctx); locked || err != nil {
		return false, err // the run that holds the lock ends later, and calls join itself
	}
	j.engine.Progress = &engine.Progress{TooMany: j.engine.Progress.TooMany}
	r, err := j.run(ctx, nil)
	return err == nil && r.Totals.Pending == 0, err
}

// Two shards that end at the same time may each find the other's lock. So a shard tries joinTries times.
const (
	joinTries = 5
	joinPause = 200 * time.Millisecond
)

// attachRetrying calls Attach up to joinTries times while the output is locked. It reports whether it is still locked.
func (j *Job) attachRetrying(ctx context.Context) (locked bool, err error) {
	for range joinTries {
		var other *store.LockedError
		if err = j.Attach(ctx); !errors.As(err, &other) {
			return false, err
		}
		j.output.Detach()
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return true, nil
		}
	}
	return true, nil
}

// unshard makes the job cover the rows of all shards.
func (j *Job) unshard() {
	j.Opts.Shard, j.Opts.Shards, j.Opts.Retry, j.launch.Retry = 0, 0, false, false
	j.output.Retry, j.output.Several = false, j.launch.Away
	j.engine.Rules.Shard, j.engine.Rules.Shards = 0, 0
	j.report.Part = ""
}
