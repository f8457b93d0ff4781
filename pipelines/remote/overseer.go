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

// Overseer follows the workers of a job from the process that has submitted it: it sums what they have done, hears of
// their trouble, and tells them to stop.
type Overseer struct {
	Submitter
	run     runfiles.Folder
	info    runfiles.JobInfo
	own     bool                    // it is the job of this process, not of an earlier run
	cancel  context.CancelCauseFunc // ends the job at the engine
	known   map[string]runfiles.Trouble
	passing int  // troubles that may pass
	stopped bool // the marker is written
	facts   []runfiles.Facts
}

// Submitter is the process that submits a job.
type Submitter struct {
	Engine *engine.Engine
	Job    string // its name under runs/
	Name   string // of the process among those that write facts
	Away   bool   // the workers are other processes
	Bad    int64  // rows that could not be used, which no worker has seen
}

func (s Submitter) of(job string) runfiles.Folder {
	return runfiles.Folder{Store: s.Engine.Store, ID: job}
}

// maxTroubles is how often bundles may end with an error that may pass, until the job is given up.
const maxTroubles = 20

// Oversee follows the workers until end is called. cancel ends the job at the engine.
func (s Submitter) Oversee(ctx context.Context, info runfiles.JobInfo, cancel context.CancelCauseFunc) (o *Overseer, end func(), err error) {
	o = &Overseer{Submitter: s, run: s.of(s.Job), info: info, own: true, cancel: cancel, known: map[string]runfiles.Trouble{}}
	if err := o.run.Write(ctx, o.info); err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
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
	return o, func() { stop(); <-done }, nil
}

// Started notes the engine's id of the job, by which it is found if this process dies.
func (o *Overseer) Started(ctx context.Context, id string) {
	o.info.Engine = id
	if err := o.run.Write(ctx, o.info); err != nil {
		slog.Warn("the id of the engine's job could not be noted: another run would not find it", "job", id, "error", err)
	}
}

// RecordEnd notes that the engine's job is no more.
func (o *Overseer) RecordEnd(ctx context.Context) {
	now := time.Now().UTC()
	o.info.Ended = &now
	if err := o.run.Write(ctx, o.info); err != nil {
		slog.Debug("the end of the job could not be noted", "error", err)
	}
}

// Poll reads what the workers say, once.
func (o *Overseer) Poll(ctx context.Context) {
	if err := o.listen(ctx); err != nil && ctx.Err() == nil {
		slog.Debug("what the workers say could not be read", "error", err)
	}
}

func (o *Overseer) listen(ctx context.Context) error {
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
		o.hear(ctx, t)
	}
	if err != nil {
		return err
	}
	if o.facts, err = o.run.ReadFacts(ctx); err != nil {
		return err
	}
	// This process computes nothing.
	o.facts = slices.DeleteFunc(o.facts, func(f runfiles.Facts) bool { return f.Process == o.Name })
	if !o.Away { // they are this engine's own
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

// sum adds up the rows of all workers.
func (o *Overseer) sum() (sum runfiles.Rows) {
	for _, f := range o.facts {
		sum.Done += f.Rows.Done
		sum.Failed += f.Rows.Failed
		sum.Skipped += f.Rows.Skipped
		sum.Shared += f.Rows.Shared
	}
	return sum
}

// hear takes the trouble of a worker: what cannot pass ends the job, instead of being tried again for ever.
func (o *Overseer) hear(ctx context.Context, t runfiles.Trouble) {
	err := errors.New(t.Error)
	switch t.Exit {
	case fault.ExitUsage:
		o.abandon(ctx, fault.Usage(err))
	case fault.ExitTryAgain:
		o.passing++
		slog.Warn("a worker could not go on; the engine tries again", "error", t.Error)
		if o.passing >= maxTroubles {
			o.abandon(ctx, fault.TryAgain(fmt.Errorf("%w (it is the trouble number %d)", err, o.passing)))
		}
	default:
		o.abandon(ctx, fault.Fatal(err))
	}
}

// abandon ends the job. Its workers are told, too: a job server of Flink calls a job cancelled at once, and the cluster may
// go on with it for a long time. Then its bundles find the marker and end.
func (o *Overseer) abandon(ctx context.Context, why error) {
	if err := o.run.Stop(ctx, runfiles.Cancel, "the process that submitted the job"); err != nil {
		slog.Warn("the workers of a job that is given up could not be told to stop", "error", err)
	}
	o.cancel(why)
}

// Stages sums the times of the workers.
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

// Workers counts the devices of all workers.
func (o *Overseer) Workers() (n int) {
	for _, f := range o.facts {
		n += len(f.Devices)
	}
	return n
}
