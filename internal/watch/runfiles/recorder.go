package runfiles

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"latentbeam/internal/storage/store"
)

// Recorder writes the facts of a process now and then, until End. What it cannot write is no reason to end the job.
type Recorder struct {
	job    Folder
	facts  func() Facts
	onStop func(Stop)
	seen   Stop            // the marker that was there when the process began
	run    context.Context // of the job: once it has ended the job is given up
	ctx    context.Context // of the writes, which go on until End
	quit   context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	state State
	told  bool // that facts cannot be written
}

// Record writes job.json and from now on the facts of a process. stopped is told once when somebody asks the job to end
// after this call; nil: nobody is told. The facts that the function returns need no State.
func Record(ctx context.Context, job Folder, info JobInfo, facts func() Facts, stopped func(Stop)) *Recorder {
	r := &Recorder{job: job, facts: facts, onStop: stopped, run: ctx, done: make(chan struct{}), state: Preparing}
	r.ctx, r.quit = context.WithCancel(context.WithoutCancel(ctx))
	err := job.Write(ctx, info)
	if err == nil {
		err = job.Prune(ctx)
	}
	if s, stopErr := job.Stopped(ctx); stopErr == nil && s != nil {
		r.seen = *s
	}
	r.warnOnce(errors.Join(err, r.write(ctx, "")))
	go r.loop()
	return r
}

func (r *Recorder) loop() {
	defer close(r.done)
	tick := time.NewTicker(Every(r.job.Store))
	defer tick.Stop()
	cancelled := r.run.Done()
	for {
		select {
		case <-tick.C:
		case <-cancelled: // at once: the process may not live until the next tick
			cancelled = nil
		case <-r.ctx.Done():
			return
		}
		r.warnOnce(r.write(r.ctx, ""))
		if s, err := r.job.Stopped(r.ctx); err == nil && s != nil && !s.At.Equal(r.seen.At) && r.onStop != nil {
			r.seen = *s
			r.onStop(*s)
		}
	}
}

// write writes the facts. why is the error that has ended the process.
func (r *Recorder) write(ctx context.Context, why string) error {
	f := r.facts()
	r.mu.Lock()
	if r.state != Running || f.State != Stopping { // the process knows that it stops
		f.State = r.state
	}
	if !f.State.Ended() && r.run.Err() != nil {
		f.State = Cancelling
	}
	r.mu.Unlock()
	f.Error, f.Every = why, Every(r.job.Store).Seconds()
	return r.job.WriteFacts(ctx, f)
}

// warnOnce warns of an error once.
func (r *Recorder) warnOnce(err error) {
	if err == nil || r.ctx.Err() != nil || errors.Is(err, store.ErrRemoved) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told {
		slog.Warn("`latentbeam status` sees nothing new of this run: its facts cannot be written", "error", err)
	}
	r.told = true
}

// Set says what the process does now. Nil takes it, too.
func (r *Recorder) Set(s State) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = s
}

// State returns what the process does; "" for nil.
func (r *Recorder) State() State {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// endTime bounds the last write of facts.
const endTime = 30 * time.Second

// Stop writes the last facts: the process has ended, with err or well. A second End does nothing, and so does nil.
func (r *Recorder) Stop(err error) {
	if r == nil || r.State().Ended() {
		return
	}
	r.quit()
	<-r.done
	state, why := Done, ""
	if err != nil {
		state, why = Failed, err.Error()
		if r.run.Err() != nil {
			state = Cancelled
		}
	}
	r.Set(state)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), endTime)
	defer cancel()
	if writeErr := r.write(ctx, why); writeErr != nil && err == nil && !errors.Is(writeErr, store.ErrRemoved) {
		slog.Warn("the last facts of the run cannot be written: `latentbeam status` takes it for dead", "error", writeErr)
	}
}
