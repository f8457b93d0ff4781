package remote

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/runners"
	"latentbeam/schemas/fault"
)

// Follow waits for jobs that an engine still works on for this output, although the process that has submitted them is
// gone: their rows are not computed twice, and nothing is cleaned under their workers. Then it takes in what they did. shard
// says that this process is a shard, which works beside others; cancel ends the jobs instead.
func (s Submitter) Follow(ctx context.Context, shard, cancel bool) error {
	jobs, err := runfiles.List(ctx, s.Engine.Store)
	if err != nil {
		return err
	}
	found := false
	for _, info := range jobs {
		if info.ID == s.Job || info.Shards > 1 && shard { // shards work side by side
			continue
		}
		if info.Engine == "" { // it ended before an engine had its job, or has none
			if err := s.of(info.ID).RemoveRows(ctx); err != nil {
				return err
			}
			continue
		}
		if info.Ended == nil {
			if err := s.followOne(ctx, info, cancel); err != nil {
				return err
			}
			found = true
		}
		if err := s.rested(ctx, info.ID); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	return s.Engine.Ledger.Refresh(ctx)
}

// restTime is how long workers of a job that has ended may take to notice it.
const (
	restTime  = 20 * time.Second
	restPause = 200 * time.Millisecond
)

// rested waits until no worker of a job holds a lock any more, and cleans up after them.
func (s Submitter) rested(ctx context.Context, job string) error {
	for deadline := time.Now().Add(restTime); ; {
		err := Clean(ctx, s.Engine.Store, job, true)
		var locked *store.LockedError
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(restPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followOne waits for one job, or ends it where the options say so.
func (s Submitter) followOne(ctx context.Context, info runfiles.JobInfo, cancel bool) error {
	at := runners.Submitted{Runner: info.Runner, Endpoint: info.Endpoint, ID: info.Engine}
	running, err := at.Running(ctx)
	if err != nil {
		slog.Warn("a job of an earlier run may still be at work, its engine does not answer; its workers' locks decide",
			"runner", info.Runner, "job", info.Engine, "error", err)
	}
	o := &Overseer{Submitter: s, run: s.of(info.ID), info: info, known: map[string]runfiles.Trouble{}}
	switch {
	case !running && err == nil:
	case !running:
		return nil
	case cancel:
		slog.Warn("a job of an earlier run is cancelled", "runner", info.Runner, "job", info.Engine)
		if err := o.run.Stop(ctx, runfiles.Cancel, "a later run with --cancel"); err != nil {
			return err
		}
		if err := at.Cancel(ctx); err != nil {
			return err
		}
	default:
		slog.Warn("a job of an earlier run is still at work on this output: this run follows it, then does what is left; "+
			"--cancel ends it instead", "runner", info.Runner, "job", info.Engine)
		if err := o.followRunning(ctx, at); err != nil {
			return err
		}
	}
	o.RecordEnd(ctx)
	return nil
}

// followRunning waits for the end of a job, whatever it is; what it leaves is computed afterwards.
func (o *Overseer) followRunning(ctx context.Context, at runners.Submitted) error {
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
				o.Poll(followed)
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

// Clean removes what workers that have ended leave in the output of a job: locks that nobody holds, temporary
// files under them, and the rows. One that is held is an error where nobody may be at work any more.
func Clean(ctx context.Context, s store.Store, job string, alone bool) error {
	j := runfiles.Folder{Store: s, ID: job}
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
