package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas/fault"
)

// lock takes the lock of this run, or of this shard, on the output. Shards of one job may share an output;
// anything else that is at work there (a run over all rows, a job cut into another number of shards) is an
// error that names it.
func (j *Job) lock(ctx context.Context, s store.Store) (release func(), err error) {
	mine := j.lockName()
	if release, err = s.Lock(ctx, mine, "latentbeam run"); err != nil {
		return nil, err
	}
	// Two that come at the same time both hold their own lock here, so at least one of them sees the other.
	if j.free, err = j.othersLocks(ctx, s); err == nil {
		for _, name := range j.free {
			if err = s.Held(ctx, name); err != nil {
				break
			}
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// alone refuses a job of several processes on a store that protects no run from another one.
func (j *Job) alone(s store.Store) error {
	broken := open.Broken(s)
	if len(broken) == 0 {
		return nil
	}
	if j.Opts.Shards > 1 || j.elsewhere() {
		return fault.Usage(fmt.Errorf("output %s: %s: %s; with output.unsafe_store one process may write there, not the shards or workers "+
			"of a job: take another store (docs/buckets.md)", s.URL(), broken[0].Name, broken[0].Found))
	}
	for _, p := range broken {
		slog.Warn("the store of the output is not safe, so a second run on it would not be noticed", "output", s.URL(), "promise", p.Name,
			"found", p.Found)
	}
	return nil
}

// awaitPause is the time between two looks at the locks of an output.
const awaitPause = time.Second

// Await waits until no run holds a lock for which a job would have to wait. waiting is told once who does.
func Await(ctx context.Context, cfg *config.Config, o Options, waiting func(who error)) error {
	s, err := o.outputs.read(ctx, cfg.Output.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	j := &Job{report: report.Job{Part: part(o)}}
	for told := false; ; {
		names, err := j.othersLocks(ctx, s)
		var locked *store.LockedError
		for _, name := range append(names, j.lockName()) {
			if err == nil {
				err = s.Held(ctx, name)
			}
		}
		if !errors.As(err, &locked) {
			return err
		}
		if !told {
			waiting(locked)
			told = true
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// othersLocks lists the locks of runs that may not work beside this one.
func (j *Job) othersLocks(ctx context.Context, s store.Store) (names []string, err error) {
	files, err := store.Names(ctx, s, "", store.Flat)
	for _, name := range files {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, "lock") && report.Layout(name) != report.Layout(j.report.Part) {
			names = append(names, name)
		}
	}
	return names, err
}

// lockName is the lock of this run, or of this shard.
func (j *Job) lockName() string { return "." + j.report.Part + "lock" }
