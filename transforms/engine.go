package transforms

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"latentbeam/internal/ledger"
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

// Engine is what a job needs in a process: opened stages, devices, the output and the counters.
type Engine struct {
	Source   Source
	Rules    Rules
	Steps    []Step
	Pool     stages.Pool
	Store    *store.Dir
	Ledger   *ledger.Ledger
	Progress *Progress
	MaxBatch int                  // upper bound on a batch; 0: the memory plan alone decides
	Retries  int                  // attempts at an element when the world fails
	Keep     map[stages.Kind]bool // what is published: video, latents, text
	stopping atomic.Bool
	pending  pending
	failure  failure

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
func (e *Engine) Stop() { e.stopping.Store(true) }

// Stopping reports whether Stop was called.
func (e *Engine) Stopping() bool { return e.stopping.Load() }

// pending holds the keys that are on their way, so that a row equal to one in flight is not computed
// twice. It is as small as what is in flight.
type pending struct {
	sync.Mutex
	keys map[schemas.Key]bool
}

// claim reports whether the key was free, and takes it.
func (p *pending) claim(k schemas.Key) bool {
	p.Lock()
	defer p.Unlock()
	if p.keys[k] {
		return false
	}
	if p.keys == nil {
		p.keys = map[schemas.Key]bool{}
	}
	p.keys[k] = true
	return true
}

// reset forgets the claims of bundles that never came to an end.
func (p *pending) reset() {
	p.Lock()
	defer p.Unlock()
	p.keys = nil
}

func (p *pending) release(keys ...schemas.Key) {
	p.Lock()
	defer p.Unlock()
	for _, k := range keys {
		delete(p.keys, k)
	}
}

// registry holds the engines of this process by the hash of their specification.
var registry struct {
	sync.Mutex
	open    func(spec []byte) (*Engine, error)
	engines map[[32]byte]*Engine
}

// Install says how a process that did not build the pipeline (a worker) makes the engine of a
// specification. It is called once, before beam.Init.
func Install(open func(spec []byte) (*Engine, error)) {
	registry.Lock()
	defer registry.Unlock()
	registry.open = open
}

// Register makes e the engine of spec in this process; forget ends that.
func Register(spec []byte, e *Engine) (forget func()) {
	id := sha256.Sum256(spec)
	registry.Lock()
	defer registry.Unlock()
	if registry.engines == nil {
		registry.engines = map[[32]byte]*Engine{}
	}
	registry.engines[id] = e
	return func() {
		registry.Lock()
		defer registry.Unlock()
		delete(registry.engines, id)
	}
}

// engineOf returns the engine of spec, opening it where the process has none yet.
func engineOf(spec []byte) (*Engine, error) {
	id := sha256.Sum256(spec)
	registry.Lock()
	defer registry.Unlock()
	if e := registry.engines[id]; e != nil {
		return e, nil
	}
	if registry.open == nil {
		return nil, fmt.Errorf("open engine: this process has neither built the job nor installed a way to open it")
	}
	e, err := registry.open(spec)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	if registry.engines == nil {
		registry.engines = map[[32]byte]*Engine{}
	}
	registry.engines[id] = e
	return e, nil
}
