package pipelines

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"latentbeam/internal/runs"
	"latentbeam/internal/store"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
)

// follow waits for jobs that an engine still works on for this output, although the process that has submitted them is
// gone: their rows are not computed twice, and nothing is cleaned under their workers. Then it takes in what they did.
func (j *Job) follow(ctx context.Context) error {
	jobs, err := runs.List(ctx, j.engine.Store)
	if err != nil {
		return err
	}
	found := false
	for _, info := range jobs {
		if info.ID == j.RunID() || info.Shards > 1 && j.report.Part != "" { // shards work side by side
			continue
		}
		if info.Engine == "" { // it ended before an engine had its job, or has none
			if err := (runs.Job{Store: j.engine.Store, ID: info.ID}).RemoveRows(ctx); err != nil {
				return err
			}
			continue
		}
		if info.Ended == nil {
			if err := j.followOne(ctx, info); err != nil {
				return err
			}
			found = true
		}
		if err := j.rested(ctx, info.ID); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	return j.engine.Ledger.Refresh(ctx)
}

// restTime is how long workers of a job that has ended may take to notice it.
const restTime = 20 * time.Second

// rested waits until no worker of a job holds a lock any more, and cleans up after them.
func (j *Job) rested(ctx context.Context, job string) error {
	for deadline := time.Now().Add(restTime); ; {
		err := cleanWorkers(ctx, j.engine.Store, job, true)
		var locked *store.LockedError
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followOne waits for one job, or ends it where the options say so.
func (j *Job) followOne(ctx context.Context, info runs.Info) error {
	at := runners.Submitted{Runner: info.Runner, Endpoint: info.Endpoint, ID: info.Engine}
	running, err := at.Running(ctx)
	if err != nil {
		slog.Warn("a job of an earlier run may still be at work, its engine does not answer; its workers' locks decide",
			"runner", info.Runner, "job", info.Engine, "error", err)
	}
	o := &overseer{job: j, run: runs.Job{Store: j.engine.Store, ID: info.ID}, info: info, known: map[string]runs.Trouble{}}
	switch {
	case !running && err == nil:
	case !running:
		return nil
	case j.Opts.CancelOthers:
		slog.Warn("a job of an earlier run is cancelled", "runner", info.Runner, "job", info.Engine)
		if err := o.run.Stop(ctx, runs.Cancel, "a later run with --cancel"); err != nil {
			return err
		}
		if err := at.Cancel(ctx); err != nil {
			return err
		}
	default:
		slog.Warn("a job of an earlier run is still at work on this output: this run follows it, then does what is left; "+
			"--cancel ends it instead", "runner", info.Runner, "job", info.Engine)
		if err := j.followRunning(ctx, at, o); err != nil {
			return err
		}
	}
	o.ended(ctx)
	return nil
}

// followRunning waits for the end of a job, whatever it is; what it leaves is computed afterwards.
func (j *Job) followRunning(ctx context.Context, at runners.Submitted, o *overseer) error {
	followed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.cancel = cancel
	done := make(chan struct{})
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for {
			select {
			case <-time.After(stopEvery):
				o.look(followed)
			case <-done:
				return
			}
		}
	}()
	err := at.Follow(followed)
	close(done)
	<-looked
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && fault.ExitCode(err) == fault.ExitTryAgain {
		return err
	}
	return nil
}

// cleanWorkers removes what workers that have ended leave in the output of a job: locks that nobody holds, temporary
// files under them, and the rows. One that is held is an error where nobody may be at work any more.
func cleanWorkers(ctx context.Context, s store.Store, job string, alone bool) error {
	j := runs.Job{Store: s, ID: job}
	names, err := store.Names(ctx, s, j.LockName(""), store.Flat)
	if err != nil {
		return err
	}
	var free []string
	for _, name := range names {
		err := s.Held(ctx, name)
		var locked *store.LockedError
		switch {
		case err == nil:
			free = append(free, name)
		case !errors.As(err, &locked) || alone:
			return err
		}
	}
	if len(free) > 0 {
		if _, err := s.CleanTemps(ctx, free...); err != nil {
			return err
		}
	}
	for _, name := range free {
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return j.RemoveRows(ctx)
}
