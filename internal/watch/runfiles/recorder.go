package runfiles

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"latentbeam/internal/storage/store"
)

// Recorder writes the facts of a process at intervals, until Stop. If it cannot write them, it logs a warning and the job goes on.
type Recorder struct {
	job    Folder
	facts  func() Facts
	onStop func(Stop)
	seen   Stop            // stop file at the start of the process, or the last one reported
	run    context.Context // context of the job; canceled when the job is cancelled
	ctx    context.Context // context of the writes, which go on until Stop
	quit   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	state  State
	warned bool // a warning was logged that facts cannot be written
}

// Record writes job.json, and starts a goroutine that writes the facts of the process. It calls stopped, if not nil, when
// somebody writes a new stop file. facts need not set State.
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

// loop writes the facts and checks for the stop file at intervals.
func (r *Recorder) loop() {
	defer close(r.done)
	tick := time.NewTicker(Every(r.job.Store))
	defer tick.Stop()
	cancelled := r.run.Done()
	for {
		select {
		case <-tick.C:
		case <-cancelled: // write at once, because the process may end before the next tick
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

// write writes the facts. why is the error that ended the process; "": none.
func (r *Recorder) write(ctx context.Context, why string) error {
	f := r.facts()
	r.mu.Lock()
	if r.state != Running || f.State != Stopping { // keep Stopping, which only the facts know
		f.State = r.state
	}
	if !f.State.Ended() && r.run.Err() != nil {
		f.State = Cancelling
	}
	r.mu.Unlock()
	f.Error, f.Every = why, Every(r.job.Store).Seconds()
	return r.job.WriteFacts(ctx, f)
}

// warnOnce logs a warning for the first error.
func (r *Recorder) warnOnce(err error) {
	if err == nil || r.ctx.Err() != nil || errors.Is(err, store.ErrRemoved) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.warned {
		slog.Warn("`latentbeam status` sees nothing new of this run: its facts cannot be written", "error", err)
	}
	r.warned = true
}

// SetState sets the state of the process. It does nothing for a nil Recorder.
func (r *Recorder) SetState(s State) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = s
}

// State returns the state of the process; "" for a nil Recorder.
func (r *Recorder) State() State {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// lastWriteTime limits the duration of the last write of facts.
const lastWriteTime = 30 * time.Second

// Stop stops the Recorder and writes the last facts: the process has succeeded (err is nil) or ended with err. Further calls do
// nothing, and so do calls for a nil Recorder.
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
	r.SetState(state)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), lastWriteTime)
	defer cancel()
	if writeErr := r.write(ctx, why); writeErr != nil && err == nil && !errors.Is(writeErr, store.ErrRemoved) {
		slog.Warn("the last facts of the run cannot be written: `latentbeam status` takes it for dead", "error", writeErr)
	}
}
