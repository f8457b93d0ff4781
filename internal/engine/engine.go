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
	// concerns the whole table and ends it. tensors says whether arrays are read too.
	Rows(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error]
}

// Engine holds all that a job needs in one process: the opened stages and the devices (in Schedule), the output, and the counters.
type Engine struct {
	Schedule *schedule.Schedule // decides which batch is next, and on which devices
	Recovery *recovery.Recovery // decides what follows an attempt
	Steps    *SavedSteps        // saved steps of samplings
	Source   RowSource
	Rules    keys.Rules
	Store    store.Store
	Ledger   *ledger.Ledger
	Book     *Book // readings of the output; nil: none are stored apart from results
	Progress *Progress
	Board    *board.Board
	Keep     map[stages.Kind]bool   // kinds that are published: video, latents, text
	Marks    *marking.Marker        // marks published files; nil: files are not marked
	Earlier  func(schemas.Key) bool // reports whether an earlier run published files of a row; nil: none did
	// Published is called with the poster's digest of every row that this process publishes; nil: not called.
	Published func(key schemas.Key, poster [32]byte)
	Expected  []schedule.Expected // rows that the first pass will probably compute
	Spread    *Spread             // nil: all bundles run in this process, in one pass
	pending   pending
	passing   passages
	finished  signals
	failure   firstError
	replaced  atomic.Int64 // files of earlier runs that were replaced

	pass    atomic.Pointer[pass] // the latest; nil in a worker
	running sync.WaitGroup       // goroutines of the pass's bundles
}

// New returns an engine for these steps on the devices of a pool. The caller sets the other fields before the
// first pass.
func New(steps []stages.Step, pool devices.Pool) *Engine {
	s := schedule.New(clock{}, steps, pool)
	e := &Engine{Schedule: s, Recovery: recovery.New(s), Progress: &Progress{}, Board: newBoard(steps, pool)}
	e.Steps = &SavedSteps{engine: e}
	return e
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

// pass is one execution of the pipeline, with its own context and the context of the job around it.
type pass struct {
	ctx, job context.Context
	end      context.CancelFunc
}

// Pass executes the job's pipeline once, by calling run. It returns the reason why the job ended early, or nil.
// When Pass returns, no goroutine of the pipeline is still running. Pass waits for them itself, because runners
// abandon failed bundles.
func (e *Engine) Pass(ctx context.Context, run func(context.Context) error) error {
	e.pending.reset()
	e.passing.clear(e.Schedule)
	e.Schedule.Reset(e.Expected)
	e.Expected = nil // a second pass computes an unknown rest
	p := &pass{job: ctx}
	p.ctx, p.end = context.WithCancel(ctx)
	e.pass.Store(p)
	err := run(p.ctx)
	p.end()
	e.running.Wait()
	if cause := e.Err(); cause != nil {
		return cause
	}
	if p.job.Err() != nil { // the runner's own error hides the cause
		return context.Cause(p.job)
	}
	return err
}

// bundle returns the context for everything that a bundle starts. It is canceled with the bundle's context ctx and with the pass.
func (e *Engine) bundle(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if p := e.pass.Load(); p != nil {
		context.AfterFunc(p.ctx, func() { cancel(context.Canceled) })
	}
	return ctx, cancel
}

// job returns the context of the bundle's job. It stays valid when the bundle is abandoned.
func (e *Engine) job(bundle context.Context) context.Context {
	if p := e.pass.Load(); p != nil {
		return p.job
	}
	return bundle
}

// Settled reports whether every row that the last pass let through was published. If false, a
// runner has lost a bundle, and another pass finds its rows.
func (e *Engine) Settled() bool {
	e.pending.Lock()
	defer e.pending.Unlock()
	return len(e.pending.keys) == 0
}

// firstError stores the first error that ended the job. Runners pass on the text of an error, not the error itself.
type firstError struct {
	sync.Mutex
	err error
}

// Fail records a non-nil err as the reason why the job ends, and returns err. It also cancels running batches, because a runner
// sees an error only when a bundle returns from its stages.
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

// Read emits the rows of the job's source until the table ends or the engine is asked to stop. An unusable row is
// emitted as a failed element.
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

// Admit computes the key of an element and reports whether the element still has to be computed. Admit only counts a bad row; the
// failures table is written later, from the source itself.
func (e *Engine) Admit(el *stages.Element) (bool, error) {
	return e.admit(el, e.pending.claim, func(k schemas.Key) { e.pending.release(k) })
}

// admit is Admit with its own claim and release. Of several equal rows only one can claim the key, until it is released.
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
	// Look up only after the claim: an equal row in flight releases its claim once the ledger has its record.
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

// recallMedia loads the stored readings of the media of an element that has no result.
func (e *Engine) recallMedia(el *stages.Element) error {
	if e.Book == nil || !e.Book.Looks() {
		return nil
	}
	_, err := e.Book.Recall(el, &schemas.Result{})
	return err
}

// recall loads the stored readings of an element whose result is at ref. lacking reports whether a measure still has to look at the
// element; the element then gets its result in Settled.
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
