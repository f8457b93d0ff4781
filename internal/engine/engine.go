package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/engine/recovery"
	"latentbeam/internal/engine/schedule"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/watch/board"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// RowSource yields the rows of a job: prompts, or rows of the tables of an earlier job.
type RowSource interface {
	// Rows yields the rows in order. A row that cannot be used comes with Failed set; a non-nil error
	// is about the whole table and ends it. tensors says whether arrays are read along.
	Rows(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error]
}

// Engine is what a job needs in a process: opened stages and devices, in its Schedule, the output and the counters.
type Engine struct {
	Schedule *schedule.Schedule // which batch goes first, on which devices
	Recovery *recovery.Recovery // what follows an attempt
	Source   RowSource
	Rules    keys.Rules
	Store    store.Store
	Ledger   *ledger.Ledger
	Book     *Book // readings of the output; nil: none are kept apart
	Progress *Progress
	Board    *board.Board
	Keep     map[stages.Kind]bool   // what is published: video, latents, text
	Marks    *marking.Marker        // of the files that are published; nil: none
	Earlier  func(schemas.Key) bool // whether an earlier run published files of a row; nil: none did
	// Published is told of the poster of every row that this process has published; nil: nobody asks.
	Published func(key schemas.Key, poster [32]byte)
	Expected  []schedule.Expected // what the first pass will compute, as far as it is known
	Spread    *Spread             // nil: all bundles are of this process and pass
	pending   pending
	passing   passages
	bells     bells
	steps     savedSteps
	saveEvery *time.Duration // work between two times that steps are kept; nil: they are not
	failure   firstError
	replaced  atomic.Int64 // files of earlier runs

	pass    atomic.Pointer[pass] // the last, nil in a worker
	running sync.WaitGroup       // goroutines of its bundles
}

// New returns an engine for these steps on the devices of a pool. Its other fields are the caller's to set before the
// first pass.
func New(steps []stages.Step, pool devices.Pool) *Engine {
	s := schedule.New(clock{}, steps, pool)
	return &Engine{Schedule: s, Recovery: recovery.New(s), Progress: &Progress{}, Board: newBoard(steps, pool)}
}

// clock is the time of the machine.
type clock struct{}

// Now implements schedule.Clock.
func (clock) Now() time.Time { return time.Now() }

// AfterFunc implements schedule.Clock.
func (clock) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// pass is one execution of the pipeline: its own context, and that of the job around it.
type pass struct {
	ctx, job context.Context
	end      context.CancelFunc
}

// Pass lets run execute a pipeline of the job once, and returns why the job ended early, nil if it did not.
// However it ended, nothing of the pipeline is at work any more when Pass returns: runners leave bundles
// that failed as they are.
func (e *Engine) Pass(ctx context.Context, run func(context.Context) error) error {
	e.pending.reset()
	e.passing.clear(e.Schedule)
	e.Schedule.Reset(e.Expected)
	e.Expected = nil // what a pass leaves is not known
	p := &pass{job: ctx}
	p.ctx, p.end = context.WithCancel(ctx)
	e.pass.Store(p)
	err := run(p.ctx)
	p.end()
	e.running.Wait()
	if cause := e.Err(); cause != nil {
		return cause
	}
	if p.job.Err() != nil { // a runner has only words of its own for that
		return context.Cause(p.job)
	}
	return err
}

// bundle is the context of what a bundle starts: it ends with the bundle's own and with the pass.
func (e *Engine) bundle(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if p := e.pass.Load(); p != nil {
		context.AfterFunc(p.ctx, func() { cancel(context.Canceled) })
	}
	return ctx, cancel
}

// job is the context of the job that a bundle belongs to: it outlives a bundle that is given up.
func (e *Engine) job(bundle context.Context) context.Context {
	if p := e.pass.Load(); p != nil {
		return p.job
	}
	return bundle
}

// Settled reports whether every row that the last pass let through was published. Where it was not, a
// runner has lost a bundle, and another pass finds the rows.
func (e *Engine) Settled() bool {
	e.pending.Lock()
	defer e.pending.Unlock()
	return len(e.pending.keys) == 0
}

// firstError keeps the first error that ended the job: runners pass on its text, but not the error itself.
type firstError struct {
	sync.Mutex
	err error
}

// Fail records err as the reason why the job ends, if it is one, and returns it. What is being computed ends too: a runner
// sees an error only when a bundle comes back from its stages.
func (e *Engine) Fail(err error) error {
	if err == nil {
		return nil
	}
	e.failure.Lock()
	if e.failure.err == nil {
		e.failure.err = err
	}
	e.failure.Unlock()
	if p := e.pass.Load(); p != nil {
		p.end()
	}
	return err
}

// Err returns the reason why the job ended early, nil if it did not.
func (e *Engine) Err() error {
	e.failure.Lock()
	defer e.failure.Unlock()
	return e.failure.err
}

// Read yields the rows of the job's source until the table ends or the engine is asked to stop. Rows that cannot be
// used are elements too, marked as failed.
func (e *Engine) Read(ctx context.Context, emit func(*stages.Element)) error {
	for el, err := range e.Source.Rows(ctx, true) {
		if err != nil {
			return e.Fail(err)
		}
		if e.Schedule.Stopping() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		emit(el)
	}
	return nil
}

// Admit keys an element and reports whether it is still to be computed. A bad row ends here: it is counted, and the
// failures table is written from the source itself.
func (e *Engine) Admit(el *stages.Element) (bool, error) {
	return e.admit(el, e.pending.claim, func(k schemas.Key) { e.pending.release(k) })
}

// admit is Admit. Of equal rows one can claim the key, until it is released.
func (e *Engine) admit(el *stages.Element, claim func(schemas.Key) bool, release func(schemas.Key)) (bool, error) {
	if err := e.Rules.Apply(el); err != nil {
		return false, e.Fail(err)
	}
	if !e.Rules.Mine(el) {
		return false, nil
	}
	p := e.Progress
	p.Seen.Add(1)
	if el.Failed.IsDropped() {
		p.Dropped.Add(1)
		return false, nil
	}
	if el.Failed != nil {
		e.Board.Bad(FailureOf(el), ReasonOf(el))
		return false, e.Fail(p.Settle(0, 1))
	}
	if !claim(el.Key) {
		p.Shared.Add(1)
		e.Board.Shared()
		return false, nil
	}
	// Only after the claim: an equal row in flight gives its claim back when the ledger has it.
	ref, status, err := e.Ledger.Lookup(ledger.Key(el.Key))
	if err == nil && status == ledger.Absent {
		return true, e.Fail(e.recallMedia(el))
	}
	if err == nil && status == ledger.Done && e.Book != nil && e.Book.Looks() {
		var lacking bool
		if lacking, err = e.recall(el, ref); lacking {
			return true, nil
		}
	}
	release(el.Key)
	p.Skipped.Add(1)
	e.Board.Skipped()
	return false, e.Fail(err)
}

// recallMedia brings what was read off the media of an element that has no result.
func (e *Engine) recallMedia(el *stages.Element) error {
	if e.Book == nil || !e.Book.Looks() {
		return nil
	}
	_, err := e.Book.Recall(el, &schemas.Result{})
	return err
}

// recall reports whether measures have to look at an element whose result is at ref, which it then has.
func (e *Engine) recall(el *stages.Element, ref ledger.Ref) (lacking bool, err error) {
	rec, err := e.Ledger.Read(ref)
	if err != nil {
		return false, err
	}
	r := &schemas.Result{}
	if err := json.Unmarshal(rec.Row, r); err != nil {
		return false, fmt.Errorf("read ledger record %s: %w", el.Key, err)
	}
	if lacking, err = e.Book.Recall(el, r); lacking {
		el.Settled = r
	}
	return lacking, err
}
