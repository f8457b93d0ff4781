package pipelines

import (
	"context"
	"errors"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/storage/store"
)

// join writes the report of all shards, in place of theirs, once every row of the input is settled: whichever
// ends last does it. It reports false where rows are left or somebody is at work on the output. The job is that of
// all rows then.
func (j *Job) join(ctx context.Context) (bool, error) {
	j.output.Detach()
	j.unshard()
	if err := j.Peek(ctx); err != nil { // without the lock, which would keep out a shard that begins now
		return false, err
	}
	plan, err := j.Plan(ctx)
	j.output.Detach()
	if err != nil || plan.New > 0 || plan.Score > 0 {
		return false, err
	}
	if locked, err := j.attachSoon(ctx); locked || err != nil {
		return false, err // who is at work there ends after this one, and looks in its turn
	}
	j.engine.Progress = &engine.Progress{TooMany: j.engine.Progress.TooMany}
	r, err := j.run(ctx, nil)
	return err == nil && r.Totals.Pending == 0, err
}

// Two shards that end at one moment may each find the other at the door; one of them asks again.
const (
	joinAsks  = 5
	joinPause = 200 * time.Millisecond
)

// attachSoon is Attach, several times where the output is in use; it reports whether it still is.
func (j *Job) attachSoon(ctx context.Context) (locked bool, err error) {
	for range joinAsks {
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

// unshard makes the job one of all rows.
func (j *Job) unshard() {
	j.Opts.Shard, j.Opts.Shards, j.Opts.Retry, j.launch.Retry = 0, 0, false, false
	j.output.Retry, j.output.Several = false, j.launch.Away
	j.engine.Rules.Shard, j.engine.Rules.Shards = 0, 0
	j.report.Part = ""
}
