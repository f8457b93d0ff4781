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

// Attendant tells the submitter of a job what this process does for it, and does what the submitter asks: the facts,
// marks, trouble and lock of a worker, in runs/<job>/ of the output.
type Attendant struct {
	engine  *engine.Engine
	job     runfiles.Folder
	process string
	marks   *runfiles.Marks
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

	reading sync.Mutex
	rows    store.Reader // of the job; nil before the first is asked for
}

// Times of an attendant.
const (
	stopEvery = time.Second // between two looks at the stop marker
	idleTime  = time.Second // that a lock is held without work: waves follow one another faster
	tellTime  = 20 * time.Second
)

// Attend begins to attend a job. With lock the process takes a lock of its own.
func Attend(e *engine.Engine, job string, lock bool) *Attendant {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	a := &Attendant{engine: e, job: runfiles.Folder{Store: e.Store, ID: job}, lock: lock, started: time.Now(),
		process: runfiles.Process(fmt.Sprintf("%s-%d-%s", host, os.Getpid(), nonce()[:4])), deaths: map[string][]string{}}
	a.marks = a.job.Marks(a.process)
	ctx, end := context.WithCancel(context.Background())
	a.end = end
	go a.watch(ctx)
	return a
}

// Spread says how the engine of this process works for the job, which began with a generation of the ledger. tensors brings
// those of single rows; nil: the rows have none.
func (a *Attendant) Spread(since uint32, tensors func(*stages.Element) error) *engine.Spread {
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
		FinishBundle: a.finish,
		Mark:         a.mark,
		Done:         func(keys []schemas.Key) { a.marks.Done(texts(keys)) },
		Report:       a.report,
	}
}

// openRows opens the rows of the job, once.
func (a *Attendant) openRows(ctx context.Context) (store.Reader, error) {
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

// startBundle is called when a bundle begins.
func (a *Attendant) startBundle(ctx context.Context) (map[schemas.Key]engine.Suspect, error) {
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
	if stop, err := a.job.Stopped(ctx); err == nil && stop != nil && !a.engine.Schedule.Stopping() {
		a.engine.Schedule.Stop()
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
func (a *Attendant) finish() {
	a.mu.Lock()
	if a.bundles = max(0, a.bundles-1); a.bundles == 0 {
		a.idle = time.Now()
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	a.writeFacts(ctx)
}

// writeFacts writes the facts.
func (a *Attendant) writeFacts(ctx context.Context) {
	a.telling.Lock()
	defer a.telling.Unlock()
	if err := a.job.WriteFacts(ctx, a.facts(runfiles.Every(a.job.Store))); err != nil && ctx.Err() == nil {
		slog.Debug("the facts of this process could not be written", "error", err)
	}
}

// mark notes rows before they are begun.
func (a *Attendant) mark(ctx context.Context, keys []schemas.Key, alone bool) error {
	return a.marks.Start(ctx, texts(keys), alone)
}

func texts(keys []schemas.Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.String()
	}
	return out
}

// report tells the submitter of an error that ends a bundle.
func (a *Attendant) report(err error) error {
	a.mu.Lock()
	a.broken = true
	a.mu.Unlock()
	err = Here(err)
	if errors.Is(err, context.Canceled) { // the engine has ended the bundle
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	t := runfiles.Trouble{Process: a.process, At: time.Now().UTC(), Error: err.Error(), Exit: fault.ExitCode(err)}
	if told := a.job.Report(ctx, t, int(a.troubles.Add(1))); told != nil {
		slog.Warn("the submitter could not be told of an error", "error", err, "why", told)
	}
	return err
}

// watch writes facts and looks for the stop marker until ctx ends.
func (a *Attendant) watch(ctx context.Context) {
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
		a.rest(ctx)
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(every)
		a.writeFacts(ctx)
	}
}

// rest gives back the lock of a process that has had nothing to do for a while.
func (a *Attendant) rest(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bundles > 0 && a.broken && a.engine.Schedule.Stopping() && len(a.engine.Board.Facts().Batches) == 0 { // nobody says when such a bundle ends
		a.bundles, a.idle = 0, time.Now()
	}
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
func (a *Attendant) facts(every time.Duration) runfiles.Facts {
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

// Close writes the last facts and gives the lock back.
func (a *Attendant) Close() {
	a.end()
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	a.mu.Lock()
	a.bundles, a.idle = 0, time.Unix(0, 0)
	a.mu.Unlock()
	a.rest(ctx)
	a.writeFacts(ctx)
	a.reading.Lock()
	defer a.reading.Unlock()
	if a.rows != nil {
		a.rows.Close()
	}
}

// Refuse tells the submitter of a job why this process does not work for it. The engine may try again for ever, and its
// log is on another host.
func Refuse(output, job string, why error) {
	if output == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
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

// Here says on which host an error was.
func Here(err error) error {
	host, nameErr := os.Hostname()
	if nameErr != nil {
		host = "unknown"
	}
	return fmt.Errorf("worker on host %s: %w", host, err)
}

// nonce tells processes apart.
func nonce() string { return strings.ToLower(rand.Text()[:16]) }
