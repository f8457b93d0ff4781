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

// Follow waits for jobs of earlier runs that an engine still computes for this output after their submitter died. So no row is
// computed twice, and no file of their workers is removed. Then it reads their results from the ledger. shard says that this process
// is a shard, which does not wait for other shards. With cancel, Follow cancels the jobs instead.
func (s Submitter) Follow(ctx context.Context, shard, cancel bool) error {
	jobs, err := runfiles.List(ctx, s.Engine.Store)
	if err != nil {
		return err
	}
	found := false
	for _, info := range jobs {
		if info.ID == s.Job || info.Shards > 1 && shard { // shards run at the same time
			continue
		}
		if info.Engine == "" { // the run ended before the engine accepted the job, or used no engine
			if err := s.folder(info.ID).RemoveRows(ctx); err != nil {
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
		if err := s.waitReleased(ctx, info.ID); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	return s.Engine.Ledger.Refresh(ctx)
}

// releaseTime limits how long the workers of a job that has ended may hold their locks.
const (
	releaseTime  = 20 * time.Second
	releasePause = 200 * time.Millisecond
)

// waitReleased waits until no worker of a job holds a lock, and removes their files.
func (s Submitter) waitReleased(ctx context.Context, job string) error {
	for deadline := time.Now().Add(releaseTime); ; {
		err := Clean(ctx, s.Engine.Store, job, true)
		var locked *store.LockedError
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(releasePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followOne waits for one job, or cancels it if cancel is true.
func (s Submitter) followOne(ctx context.Context, info runfiles.JobInfo, cancel bool) error {
	at := runners.Submitted{Runner: info.Runner, Endpoint: info.Endpoint, ID: info.Engine}
	running, err := at.Running(ctx)
	if err != nil {
		slog.Warn("a job of an earlier run may still be at work, its engine does not answer; its workers' locks decide",
			"runner", info.Runner, "job", info.Engine, "error", err)
	}
	o := &Overseer{Submitter: s, run: s.folder(info.ID), info: info, known: map[string]runfiles.Trouble{}}
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

// followRunning waits until a job ends. It ignores whether the job failed, because this run computes the remaining rows.
func (o *Overseer) followRunning(ctx context.Context, at runners.Submitted) error {
	followed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.cancel = cancel
	done := make(chan struct{})
	polled := make(chan struct{})
	go func() {
		defer close(polled)
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
	<-polled
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && fault.ExitCode(err) == fault.ExitTryAgain {
		return err
	}
	return nil
}

// Clean removes files that workers left in the output of a job: locks that no process holds, temporary files of
// the workers, and the rows of the job. If alone is true, a lock that a process holds is an error.
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
