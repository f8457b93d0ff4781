package pipelines

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/runs"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// attendant tells the submitter of a job what this process does for it, and does what the submitter asks: the facts,
// marks, trouble and lock of a worker, in runs/<job>/ of the output.
type attendant struct {
	engine  *engine.Engine
	job     runs.Job
	process string
	marks   *runs.Marks
	lock    bool // of its own: a process that has submitted the job holds that of the output

	telling sync.Mutex // one writes facts at a time: of two that replace an object at once one loses

	mu       sync.Mutex
	bundles  int       // at work
	idle     time.Time // since when there are none
	release  func()    // of the lock; nil: not held
	locks    int       // that were taken
	started  time.Time
	deaths   map[string][]string
	broken   bool // a bundle has ended with an error
	troubles atomic.Int64
	end      context.CancelFunc
}

// Times of an attendant.
const (
	stopEvery = time.Second // between two looks at the stop marker
	idleTime  = time.Second // that a lock is held without work: waves follow one another faster
	tellTime  = 20 * time.Second
)

// newAttendant begins to attend a job.
func newAttendant(e *engine.Engine, job string, lock bool) *attendant {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	a := &attendant{engine: e, job: runs.Job{Store: e.Store, ID: job}, lock: lock, started: time.Now(),
		process: runs.Process(fmt.Sprintf("%s-%d-%s", host, os.Getpid(), newJobID()[:4])), deaths: map[string][]string{}}
	a.marks = a.job.Marks(a.process)
	ctx, end := context.WithCancel(context.Background())
	a.end = end
	go a.watch(ctx)
	return a
}

// begin is called when a bundle begins.
func (a *attendant) begin(ctx context.Context) (map[schemas.Key]engine.Suspect, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		a.engine.Broken()
		a.broken, a.bundles = false, 0
	}
	if a.lock && a.release == nil {
		a.locks++ // a name of its own each time: whoever finds this one free may clean up after it
		release, err := a.job.Lock(ctx, fmt.Sprintf("%s-%d", a.process, a.locks))
		if err != nil {
			return nil, err
		}
		a.release = release
	}
	// A cluster may begin bundles of a job that has long been given up.
	if stop, err := a.job.Stopped(ctx); err == nil && stop != nil && !a.engine.Stopping() {
		a.engine.Stop()
	}
	a.bundles++
	if err := a.engine.Ledger.Refresh(ctx); err != nil {
		return nil, err
	}
	if err := a.marks.Bury(ctx); err != nil {
		return nil, err
	}
	found, err := a.job.Suspects(ctx, a.deaths)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	suspects := map[schemas.Key]engine.Suspect{}
	for text, s := range found {
		var key schemas.Key
		if n, err := hex.Decode(key[:], []byte(text)); err == nil && n == len(key) {
			suspects[key] = engine.Suspect{Among: s.Among, Guilty: s.Guilty()}
		}
	}
	return suspects, nil
}

// finish is called when a bundle has ended well. The facts are written before the engine hears of it: the submitter reads
// them when the job has ended.
func (a *attendant) finish() {
	a.mu.Lock()
	if a.bundles = max(0, a.bundles-1); a.bundles == 0 {
		a.idle = time.Now()
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	a.tell(ctx)
}

// tell writes the facts.
func (a *attendant) tell(ctx context.Context) {
	a.telling.Lock()
	defer a.telling.Unlock()
	if err := a.job.WriteFacts(ctx, a.facts(runs.Every(a.job.Store))); err != nil && ctx.Err() == nil {
		slog.Debug("the facts of this process could not be written", "error", err)
	}
}

// mark notes rows before they are begun.
func (a *attendant) mark(ctx context.Context, keys []schemas.Key, alone bool) error {
	return a.marks.Begin(ctx, texts(keys), alone)
}

func texts(keys []schemas.Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.String()
	}
	return out
}

// report tells the submitter of an error that ends a bundle.
func (a *attendant) report(err error) error {
	a.mu.Lock()
	a.broken = true
	a.mu.Unlock()
	err = here(err)
	if errors.Is(err, context.Canceled) { // the engine has ended the bundle
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	t := runs.Trouble{Process: a.process, At: time.Now().UTC(), Error: err.Error(), Exit: fault.ExitCode(err)}
	if told := a.job.Report(ctx, t, int(a.troubles.Add(1))); told != nil {
		slog.Warn("the submitter could not be told of an error", "error", err, "why", told)
	}
	return err
}

// watch writes facts and looks for the stop marker until ctx ends.
func (a *attendant) watch(ctx context.Context) {
	every := runs.Every(a.job.Store)
	for next := time.Now(); ; {
		select {
		case <-time.After(stopEvery):
		case <-ctx.Done():
			return
		}
		if stop, err := a.job.Stopped(ctx); err == nil && stop != nil && !a.engine.Stopping() {
			a.engine.Stop()
		}
		a.rest(ctx)
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(every)
		a.tell(ctx)
	}
}

// rest gives back the lock of a process that has had nothing to do for a while.
func (a *attendant) rest(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bundles > 0 || a.idle.IsZero() || time.Since(a.idle) < idleTime {
		return
	}
	a.idle = time.Time{}
	if err := a.marks.Rest(ctx); err != nil {
		slog.Debug("the marks of this process could not be removed", "error", err)
	}
	if a.release != nil {
		a.release()
		a.release = nil
	}
}

// facts are what this process has done.
func (a *attendant) facts(every time.Duration) runs.Facts {
	a.mu.Lock()
	bundles := a.bundles
	a.mu.Unlock()
	p := a.engine.Progress
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	f := a.engine.Board.Facts()
	f.Process, f.Host, f.PID, f.At, f.Started = a.process, host, os.Getpid(), time.Now().UTC(), a.started.UTC()
	f.Every, f.Lock, f.State = every.Seconds(), a.job.LockName(a.process), runs.Running
	f.Rows = runs.Rows{Done: p.Done.Load(), Failed: p.Failed.Load(), Skipped: p.Skipped.Load(), Shared: p.Shared.Load()}
	switch {
	case a.engine.Stopping():
		f.State = runs.Stopping
	case bundles == 0:
		f.State = runs.Done
	}
	f.Stages = nil
	for _, s := range p.Stages() {
		f.Stages = append(f.Stages, runs.Stage{Stage: s.Stage, Busy: s.Busy.Seconds()})
	}
	return f
}

// close writes the last facts and gives the lock back.
func (a *attendant) close() {
	a.end()
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	a.mu.Lock()
	a.bundles, a.idle = 0, time.Unix(0, 0)
	a.mu.Unlock()
	a.rest(ctx)
	a.tell(ctx)
}
