package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/engine/coder"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Agent connects a worker process with the submitter of a job, through files in runs/<job>/ of the output. It writes the worker's
// facts, marks and troubles, holds its lock, and stops the engine when the submitter says so.
type Agent struct {
	engine  *engine.Engine
	job     runfiles.Folder
	process string
	marks   *runfiles.Marks
	lock    bool // acquires a lock of this process; the submitter holds the output's lock instead

	writing sync.Mutex // serialises writes of facts: of two concurrent writes to an object, one would fail

	mu       sync.Mutex
	bundles  int       // number of bundles in progress
	idle     time.Time // time when bundles became 0; zero: not idle
	release  func()    // releases the lock; nil: not held
	locks    int       // number of locks acquired so far
	started  time.Time
	deaths   map[string][]string
	broken   bool // a bundle has failed
	troubles atomic.Int64
	cancel   context.CancelFunc

	reading sync.Mutex
	rows    store.Reader // rows of the job; nil before the first use
}

// Intervals and timeouts of an agent.
const (
	stopEvery    = time.Second // between two checks for the stop file
	idleTime     = time.Second // after which an idle process releases its lock; the next wave of bundles starts sooner
	writeTimeout = 20 * time.Second
)

// StartAgent starts the agent of a worker. If lock is true, the agent acquires a lock of this process while bundles are in
// progress. Close stops it.
func StartAgent(e *engine.Engine, job string, lock bool) *Agent {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	a := &Agent{engine: e, job: runfiles.Folder{Store: e.Store, ID: job}, lock: lock, started: time.Now(),
		process: runfiles.Process(fmt.Sprintf("%s-%d-%s", host, os.Getpid(), nonce()[:4])), deaths: map[string][]string{}}
	a.marks = a.job.Marks(a.process)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go a.watch(ctx)
	return a
}

// Spread returns the functions through which the engine of this process works for the job. since is the generation of the ledger at
// the start of the job. tensors reads the tensors of one row; nil: the rows have none.
func (a *Agent) Spread(since uint32, tensors func(*stages.Element) error) *engine.Spread {
	return &engine.Spread{
		Since:  since,
		Blocks: a.job.Blocks,
		Rows: func(ctx context.Context, b runfiles.Block) (*stages.Batch, error) {
			r, err := a.openRows(ctx)
			if err != nil {
				return nil, err
			}
			data, err := b.Read(r)
			if err != nil {
				return nil, err
			}
			return coder.UnpackBlock(data)
		},
		Tensors:      tensors,
		StartBundle:  a.startBundle,
		FinishBundle: a.finishBundle,
		Mark:         a.mark,
		Done:         func(keys []schemas.Key) { a.marks.Done(texts(keys)) },
		Report:       a.report,
	}
}

// openRows opens the file with the rows of the job, once.
func (a *Agent) openRows(ctx context.Context) (store.Reader, error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	if a.rows != nil {
		return a.rows, nil
	}
	r, err := a.job.OpenRows(ctx)
	if err == nil {
		a.rows = r
	}
	return r, err
}

// startBundle is called at the start of a bundle. It acquires the lock if necessary, and returns rows that may have killed earlier
// workers.
func (a *Agent) startBundle(ctx context.Context) (map[schemas.Key]engine.Suspect, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		a.engine.Broken()
		a.broken, a.bundles = false, 0
	}
	if a.lock && a.release == nil {
		a.locks++ // a new name each time, because another process may remove a lock that it finds free
		release, err := a.job.Lock(ctx, fmt.Sprintf("%s-%d", a.process, a.locks))
		if err != nil {
			return nil, err
		}
		a.release = release
	}
	// A cluster may start bundles of a job that its submitter has abandoned.
	if stop, err := a.job.Stopped(ctx); err == nil && stop != nil && !a.engine.Schedule.Stopping() {
		a.engine.Schedule.Stop()
	}
	a.bundles++
	if err := a.engine.Ledger.Refresh(ctx); err != nil {
		return nil, err
	}
	if err := a.marks.RecordDeaths(ctx); err != nil {
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

// finishBundle is called when a bundle has succeeded. It writes the facts before the engine reports the bundle as done, because
// the submitter reads them at the end of the job.
func (a *Agent) finishBundle() {
	a.mu.Lock()
	if a.bundles = max(0, a.bundles-1); a.bundles == 0 {
		a.idle = time.Now()
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	a.writeFacts(ctx)
}

// writeFacts writes the facts of this process.
func (a *Agent) writeFacts(ctx context.Context) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := a.job.WriteFacts(ctx, a.facts(runfiles.Every(a.job.Store))); err != nil && ctx.Err() == nil {
		slog.Debug("the facts of this process could not be written", "error", err)
	}
}

// mark records rows before the engine starts them. If the process dies, the marks name the suspects.
func (a *Agent) mark(ctx context.Context, keys []schemas.Key, alone bool) error {
	return a.marks.Start(ctx, texts(keys), alone)
}

// texts returns the keys as text.
func texts(keys []schemas.Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.String()
	}
	return out
}

// report reports an error that ended a bundle to the submitter.
func (a *Agent) report(err error) error {
	a.mu.Lock()
	a.broken = true
	a.mu.Unlock()
	err = WithHost(err)
	if errors.Is(err, context.Canceled) { // the engine itself stopped the bundle
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	t := runfiles.Trouble{Process: a.process, At: time.Now().UTC(), Error: err.Error(), Exit: fault.ExitCode(err)}
	if failed := a.job.Report(ctx, t, int(a.troubles.Add(1))); failed != nil {
		slog.Warn("the submitter could not be told of an error", "error", err, "why", failed)
	}
	return err
}

// watch writes facts and checks for the stop file at intervals, until ctx is canceled.
func (a *Agent) watch(ctx context.Context) {
	every := runfiles.Every(a.job.Store)
	for next := time.Now(); ; {
		select {
		case <-time.After(stopEvery):
		case <-ctx.Done():
			return
		}
		if stop, err := a.job.Stopped(ctx); err == nil && stop != nil && !a.engine.Schedule.Stopping() {
			a.engine.Schedule.Stop()
		}
		a.releaseIdle(ctx)
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(every)
		a.writeFacts(ctx)
	}
}

// releaseIdle removes the marks and releases the lock of a process that has had no bundle for idleTime.
func (a *Agent) releaseIdle(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bundles > 0 && a.broken && a.engine.Schedule.Stopping() && len(a.engine.Board.Facts().Batches) == 0 { // the end of a failed bundle is not reported, so infer it
		a.bundles, a.idle = 0, time.Now()
	}
	if a.bundles > 0 || a.idle.IsZero() || time.Since(a.idle) < idleTime {
		return
	}
	a.idle = time.Time{}
	if err := a.marks.Clear(ctx); err != nil {
		slog.Debug("the marks of this process could not be removed", "error", err)
	}
	if a.release != nil {
		a.release()
		a.release = nil
	}
}

// facts returns the facts of this process. every is the interval at which they are written.
func (a *Agent) facts(every time.Duration) runfiles.Facts {
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
	f.Every, f.Lock, f.State = every.Seconds(), a.job.LockName(a.process), runfiles.Running
	f.Rows = runfiles.Rows{Done: p.Done.Load(), Failed: p.Failed.Load(), Skipped: p.Skipped.Load(), Shared: p.Shared.Load()}
	switch {
	case a.engine.Schedule.Stopping():
		f.State = runfiles.Stopping
	case bundles == 0:
		f.State = runfiles.Done
	}
	f.Stages = p.Facts()
	return f
}

// Close writes the last facts and releases the lock.
func (a *Agent) Close() {
	a.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	a.mu.Lock()
	a.bundles, a.idle = 0, time.Unix(0, 0)
	a.mu.Unlock()
	a.releaseIdle(ctx)
	a.writeFacts(ctx)
	a.reading.Lock()
	defer a.reading.Unlock()
	if a.rows != nil {
		a.rows.Close()
	}
}

// ReportRefusal reports to the submitter of a job why this process cannot work for it. Without the report the engine might retry
// for ever, and its log is on another host.
func ReportRefusal(output, job string, why error) {
	if output == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	s, err := open.Existing(ctx, output)
	if err == nil {
		defer s.Close()
		t := runfiles.Trouble{Process: runfiles.Process(fmt.Sprintf("refused-%d-%s", os.Getpid(), nonce())), At: time.Now().UTC(),
			Error: why.Error(), Exit: fault.ExitCode(why)}
		err = runfiles.Folder{Store: s, ID: job}.Report(ctx, t, 1)
	}
	if err != nil {
		slog.Warn("the submitter could not be told why this worker cannot do its job", "reason", why, "error", err)
	}
}

// WithHost adds the name of this host to an error.
func WithHost(err error) error {
	host, nameErr := os.Hostname()
	if nameErr != nil {
		host = "unknown"
	}
	return fmt.Errorf("worker on host %s: %w", host, err)
}

// nonce returns a random text that makes the names of processes unique.
func nonce() string { return strings.ToLower(rand.Text()[:16]) }
