package engine

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"latentbeam/internal/ledger"
	"latentbeam/internal/lend"
	"latentbeam/internal/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Source is the table a job reads.
type Source interface {
	// Rows yields the rows in order. A row that cannot be used comes with Failed set; a non-nil error
	// is about the whole table and ends it. tensors says whether arrays are read along.
	Rows(ctx context.Context, tensors bool) iter.Seq2[*stages.Element, error]
}

// Step is one stage of a job, opened.
type Step struct {
	Name    string
	Spec    stages.Spec
	Options json.RawMessage // the stage's options in canonical form, part of the keys
	Gives   stages.Kind
	stages.Stage
}

// params returns the columns that the result of the step depends on.
func (s Step) params() []stages.Param {
	return slices.Concat(s.Spec.Params, s.Capabilities().Params)
}

// Engine is what a job needs in a process: opened stages, devices, the output and the counters.
type Engine struct {
	Source   Source
	Rules    Rules
	Steps    []Step
	Pool     lend.Pool
	Store    store.Store
	Ledger   *ledger.Ledger
	Progress *Progress
	MaxBatch int                  // upper bound on a batch; 0: the memory plan alone decides
	Retries  int                  // attempts at an element when the world fails
	Keep     map[stages.Kind]bool // what is published: video, latents, text
	Damaged  map[schemas.Key]bool // rows of which a file is not what was written; what they publish replaces it
	Expected []Expected           // what the first pass will compute, as far as it is known
	// Freed is told when no more than stay blocks of a step remain in memory; row is one of those that it computes.
	Freed    func(step int, row schemas.PromptRow, stay int)
	stopping atomic.Bool
	pending  pending
	turns    turns
	tail     tail
	forecast forecast
	learned  learned
	failure  failure
	doubts   doubts

	pass    atomic.Pointer[pass] // the last, nil in a worker
	running sync.WaitGroup       // goroutines of its bundles
}

// pass is one execution of the pipeline: its own context, and that of the job around it.
type pass struct{ ctx, job context.Context }

// Pass lets run execute a pipeline of the job once, and returns why the job ended early, nil if it did not.
// However it ended, nothing of the pipeline is at work any more when Pass returns: runners leave bundles
// that failed as they are.
func (e *Engine) Pass(ctx context.Context, run func(context.Context) error) error {
	e.pending.reset()
	e.tail.reset(e.Expected)
	e.Expected = nil // what a pass leaves is not known
	p := &pass{job: ctx}
	ctx, cancel := context.WithCancel(ctx)
	p.ctx = ctx
	e.pass.Store(p)
	err := run(ctx)
	cancel()
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

// failure keeps the first error that ended the job: runners pass on its text, but not the error itself.
type failure struct {
	sync.Mutex
	err error
}

// Fail records err as the reason why the job ends, if it is one, and returns it.
func (e *Engine) Fail(err error) error {
	if err != nil {
		e.failure.Lock()
		defer e.failure.Unlock()
		if e.failure.err == nil {
			e.failure.err = err
		}
	}
	return err
}

// Err returns the reason why the job ended early, nil if it did not.
func (e *Engine) Err() error {
	e.failure.Lock()
	defer e.failure.Unlock()
	return e.failure.err
}

// Stop makes the engine read no more rows and start no more batches; what is in flight is finished.
func (e *Engine) Stop() {
	e.stopping.Store(true)
	e.turns.grant(e.Pool) // nobody waits for rows that do not come
}

// end notes that no row comes any more.
func (e *Engine) end() {
	e.tail.end()
	e.turns.grant(e.Pool) // a batch may have waited for rows that were expected
}

// arrive notes that a batch has come to a stage. One of failed rows takes no turn, but others may have waited
// for it.
func (e *Engine) arrive(stage int, b *stages.Batch) {
	row := &b.Elements[0].Row
	e.tail.arrive(stage, schemas.BucketOf(*row), row, len(b.Elements))
	if len(b.Live()) == 0 {
		e.turns.grant(e.Pool)
	}
}

// Stopping reports whether Stop was called.
func (e *Engine) Stopping() bool { return e.stopping.Load() }

// Read yields the rows of the job's source until the table ends or the engine is asked to stop. Rows that cannot be
// used are elements too, marked as failed.
func (e *Engine) Read(ctx context.Context, emit func(*stages.Element)) error {
	for el, err := range e.Source.Rows(ctx, true) {
		if err != nil {
			return e.Fail(err)
		}
		if e.Stopping() {
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
	e.Rules.Apply(el)
	if !e.Rules.Mine(el) {
		return false, nil
	}
	p := e.Progress
	p.Seen.Add(1)
	if el.Failed != nil {
		return false, e.Fail(p.Settle(0, 1))
	}
	if !e.pending.claim(el.Key) {
		p.Shared.Add(1)
		return false, nil
	}
	// Only after the claim: an equal row in flight gives its claim back when the ledger has it.
	_, status, err := e.Ledger.Lookup(ledger.Key(el.Key))
	if err == nil && status == ledger.Absent {
		return true, nil
	}
	e.pending.release(el.Key)
	p.Skipped.Add(1)
	return false, e.Fail(err)
}
