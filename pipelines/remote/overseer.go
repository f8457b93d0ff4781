package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas/fault"
)

// Overseer monitors the workers of a job from the process that submitted it. It sums their counters, handles their
// troubles, and tells them to stop.
type Overseer struct {
	Submitter
	run     runfiles.Folder
	info    runfiles.JobInfo
	own     bool                    // the job of this process, not of an earlier run
	cancel  context.CancelCauseFunc // cancels the job at the engine
	known   map[string]runfiles.Trouble
	retries int  // number of temporary troubles
	stopped bool // the stop file is written
	facts   []runfiles.Facts
}

// Submitter is the process that submits a job.
type Submitter struct {
	Engine *engine.Engine
	Job    string // name of the job under runs/
	Name   string // name of this process in its facts
	Away   bool   // the workers are other processes
	Bad    int64  // number of unusable rows, which no worker gets
}

// folder returns the folder of a job under runs/.
func (s Submitter) folder(job string) runfiles.Folder {
	return runfiles.Folder{Store: s.Engine.Store, ID: job}
}

// maxTroubles is the number of temporary errors of bundles after which the overseer abandons the job.
const maxTroubles = 20

// Oversee monitors the workers until stop is called. The overseer calls cancel to cancel the job at the engine.
func (s Submitter) Oversee(ctx context.Context, info runfiles.JobInfo, cancel context.CancelCauseFunc) (o *Overseer, stop func(), err error) {
	o = &Overseer{Submitter: s, run: s.folder(s.Job), info: info, own: true, cancel: cancel, known: map[string]runfiles.Trouble{}}
	if err := o.run.Write(ctx, o.info); err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(stopEvery):
				o.Poll(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return o, func() { end(); <-done }, nil
}

// Started records the engine's id of the job, so that another run finds the job if this process dies.
func (o *Overseer) Started(ctx context.Context, id string) {
	o.info.Engine = id
	if err := o.run.Write(ctx, o.info); err != nil {
		slog.Warn("the id of the engine's job could not be noted: another run would not find it", "job", id, "error", err)
	}
}

// RecordEnd records that the engine's job has ended.
func (o *Overseer) RecordEnd(ctx context.Context) {
	now := time.Now().UTC()
	o.info.Ended = &now
	if err := o.run.Write(ctx, o.info); err != nil {
		slog.Debug("the end of the job could not be noted", "error", err)
	}
}

// Poll reads the files of the workers once and reacts to them. It only logs errors.
func (o *Overseer) Poll(ctx context.Context) {
	if err := o.poll(ctx); err != nil && ctx.Err() == nil {
		slog.Debug("what the workers say could not be read", "error", err)
	}
}

// poll does the work of Poll and returns errors.
func (o *Overseer) poll(ctx context.Context) error {
	e := o.Engine
	if stop, err := o.run.Stopped(ctx); err == nil && stop != nil && !e.Schedule.Stopping() {
		e.Schedule.Stop()
	}
	if e.Schedule.Stopping() && !o.stopped {
		if err := o.run.Stop(ctx, runfiles.Drain, "the process that submitted the job"); err != nil {
			return err
		}
		o.stopped = true
	}
	added, err := o.run.Troubles(ctx, o.known)
	for _, t := range added {
		o.handleTrouble(ctx, t)
	}
	if err != nil {
		return err
	}
	if o.facts, err = o.run.ReadFacts(ctx); err != nil {
		return err
	}
	// This process computes nothing, so its own facts do not count.
	o.facts = slices.DeleteFunc(o.facts, func(f runfiles.Facts) bool { return f.Process == o.Name })
	if !o.Away { // the workers use this process's engine, which counts itself
		return nil
	}
	sum := o.sum()
	sum.Failed += o.Bad
	e.Progress.Workers.Store(int64(len(o.facts)))
	e.Progress.Done.Store(sum.Done)
	e.Progress.Failed.Store(sum.Failed)
	if !o.own {
		return nil
	}
	if tooMany := e.Progress.TooMany; tooMany != nil && tooMany(sum.Done+sum.Failed, sum.Failed) {
		o.abandon(ctx, fault.Fatal(fmt.Errorf("stop: %d of the first %d rows that the workers have settled failed, more than "+
			"on_error.stop_after allows: see the failures table, mend the cause or allow more, and run again", sum.Failed,
			sum.Done+sum.Failed)))
	}
	return nil
}

// sum adds the row counts of all workers.
func (o *Overseer) sum() (sum runfiles.Rows) {
	for _, f := range o.facts {
		sum.Done += f.Rows.Done
		sum.Failed += f.Rows.Failed
		sum.Skipped += f.Rows.Skipped
		sum.Shared += f.Rows.Shared
	}
	return sum
}

// handleTrouble reacts to the trouble of a worker. A permanent error ends the job, because the engine would retry it for ever. A
// temporary error ends it after maxTroubles.
func (o *Overseer) handleTrouble(ctx context.Context, t runfiles.Trouble) {
	err := errors.New(t.Error)
	switch t.Exit {
	case fault.ExitUsage:
		o.abandon(ctx, fault.Usage(err))
	case fault.ExitTryAgain:
		o.retries++
		slog.Warn("a worker could not go on; the engine tries again", "error", t.Error)
		if o.retries >= maxTroubles {
			o.abandon(ctx, fault.TryAgain(fmt.Errorf("%w (temporary error number %d of the job)", err, o.retries)))
		}
	default:
		o.abandon(ctx, fault.Fatal(err))
	}
}

// abandon cancels the job and writes the stop file. The stop file is necessary because a Flink job server reports a job as
// cancelled at once, while the cluster may compute it for a long time. The bundles find the file and end.
func (o *Overseer) abandon(ctx context.Context, why error) {
	if err := o.run.Stop(ctx, runfiles.Cancel, "the process that submitted the job"); err != nil {
		slog.Warn("the workers of a job that is given up could not be told to stop", "error", err)
	}
	o.cancel(why)
}

// Stages sums the workers' times by stage.
func (o *Overseer) Stages() (all []engine.StageTime) {
	at := map[string]int{}
	for _, f := range o.facts {
		for _, s := range f.Stages {
			i, found := at[s.Stage]
			if !found {
				i = len(all)
				at[s.Stage] = i
				all = append(all, engine.StageTime{Stage: s.Stage})
			}
			all[i].Busy += time.Duration(s.Busy * float64(time.Second))
			for _, w := range s.Beside {
				all[i].Add(w)
			}
		}
	}
	return all
}

// Workers returns the number of devices of all workers.
func (o *Overseer) Workers() (n int) {
	for _, f := range o.facts {
		n += len(f.Devices)
	}
	return n
}
