//go:build cuda && linux

package cuda

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
	"latentbeam/kernels/cuda/kern"
)

// engine drives a device: it has the primary context, which libraries such as cublasLt share, and the only thread that makes
// driver calls in it. An engine lives as long as the process, or until an error ends its context.
type engine struct {
	Device
	generation int // number of earlier engines of this device
	target     string
	ctx        cu.CUContext
	jobs       chan func()
	ended      chan struct{} // closed when the thread accepts no more jobs
	fatalError atomic.Pointer[error]
	watchdog

	copies      cu.Stream    // uploads of weights
	staging     *staging     // for copies
	pinned      sync.RWMutex // read-locked while page-locked memory is used; locked while the context ends
	peers       map[*engine]bool
	routing     sync.Mutex
	routes      map[int]*route     // from devices whose memory it cannot read, by device number
	blas        *blas              // nil if not used
	trialsDone  bool               // the following fields are decided
	failedTrial string             // the warpgroup trial that ended the context, and how; "" if none did
	warpgroups  bool               // warpgroup kernels are used
	loaded      map[string]*kernel // used by the thread only
	modules     map[string]cu.Module
}

// queued is the number of jobs that may wait for an engine; a further caller waits until there is room.
const queued = 64

var engines struct {
	sync.Mutex
	of map[int]*engine
}

// engineOf returns the engine of a device. It makes a new one if there is none or its context has ended.
func engineOf(index int) (*engine, error) {
	if _, err := open(); err != nil {
		return nil, err
	}
	engines.Lock()
	defer engines.Unlock()
	if engines.of == nil {
		engines.of = map[int]*engine{}
	}
	for {
		e := engines.of[index]
		if e == nil || e.failure() != nil {
			next, err := newEngine(index, e)
			if err != nil {
				return nil, fmt.Errorf("open cuda:%d%s: %w", index, e.afterTrial(), classify(err))
			}
			engines.of[index], e = next, next
		}
		if err := e.tryWarpgroups(); err != nil {
			return nil, fmt.Errorf("open cuda:%d: %w", index, classify(err))
		}
		if e.failure() == nil { // else the trials have ended its context, and the next engine makes none
			return e, nil
		}
	}
}

// newEngine opens a device. old is the previous engine, whose context has ended, or nil.
func newEngine(index int, old *engine) (*engine, error) {
	within, err := patience()
	if err != nil {
		return nil, err
	}
	e := &engine{jobs: make(chan func(), queued), ended: make(chan struct{}), loaded: map[string]*kernel{},
		modules: map[string]cu.Module{}, peers: map[*engine]bool{}, routes: map[int]*route{},
		watchdog: watchdog{stuck: make(chan struct{})}}
	e.staging = &staging{eng: e}
	if old != nil {
		if err := old.stop(); err != nil {
			return nil, err
		}
		e.generation = old.generation + 1
	}
	e.Index = index
	ready := make(chan error, 1)
	go e.watch(e.name(), within)
	go e.run(index, ready)
	select {
	case err := <-ready:
		return e, err
	case <-e.stuck:
		return e, e.failure()
	}
}

// run is the engine's thread. It stays locked, so the thread ends with the goroutine.
func (e *engine) run(index int, ready chan<- error) {
	runtime.LockOSThread()
	e.watchdog.startWork()
	err := e.start(index)
	e.watchdog.stopWork()
	ready <- err
	if err != nil {
		close(e.ended)
		return
	}
	for job := range e.jobs {
		e.watchdog.startWork()
		job()
		e.watchdog.stopWork()
		select {
		case <-e.ended:
			return
		default:
		}
		if e.gaveUp() { // but the driver call did return: the device may be opened again
			e.pinned.Lock()
			e.reset()
			e.pinned.Unlock()
			return
		}
	}
}

// start opens the device on the engine's thread.
func (e *engine) start(index int) (err error) {
	if e.Device, err = describe(index); err != nil {
		return err
	}
	if e.target, err = kern.Target(e.Major, e.Minor); err != nil {
		return err
	}
	if e.ctx, err = cu.Device(index).RetainPrimaryCtx(); err != nil {
		return driver.Check("cuDevicePrimaryCtxRetain", err)
	}
	if err = cu.SetCurrentContext(e.ctx); err != nil {
		return driver.Check("cuCtxSetCurrent", err)
	}
	if e.copies, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return driver.Check("cuStreamCreate", err)
	}
	return e.openBlas()
}

// name returns the name for kernels.Backend.Device. A device that was opened again has another name, because the data in its
// memory is lost.
func (e *engine) name() string {
	if e.generation == 0 {
		return fmt.Sprintf("cuda:%d", e.Index)
	}
	return fmt.Sprintf("cuda:%d.%d", e.Index, e.generation)
}

// failure returns why the engine has ended, nil while it works.
func (e *engine) failure() error {
	if p := e.fatalError.Load(); p != nil {
		return *p
	}
	return nil
}

// recordError classifies an error of a call in e's context and records it if it ends the context.
func (e *engine) recordError(err error) error {
	if err == nil {
		return nil
	}
	err = classify(err)
	if endsContext(err) {
		first := fmt.Errorf("%s has ended: %w", e.name(), err)
		e.fatalError.CompareAndSwap(nil, &first)
	}
	return err
}

// runAndWait runs f on the engine's thread and waits for it.
func (e *engine) runAndWait(f func() error) error {
	done := make(chan error, 1)
	if err := e.enqueue(func() { done <- e.recoverPanic(f) }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-e.stuck:
		return e.failure()
	case <-e.ended:
		select {
		case err := <-done: // both channels may be ready
			return err
		default:
			return e.failure()
		}
	}
}

// enqueue queues a job for the engine's thread.
func (e *engine) enqueue(job func()) error {
	if err := e.failure(); err != nil {
		return err
	}
	select {
	case e.jobs <- job:
		return nil
	case <-e.stuck:
		return e.failure()
	case <-e.ended:
		return e.failure()
	}
}

// runAsync runs f on the engine's thread at some later time. Its error is ignored, unless it ends the context.
func (e *engine) runAsync(f func() error) {
	_ = e.enqueue(func() { _ = e.recoverPanic(f) })
}

// recoverPanic runs f and returns a panic as an error, because the thread also serves others.
func (e *engine) recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v\n%s", v, debug.Stack())
		}
		err = e.recordError(err)
	}()
	if err := e.failure(); err != nil {
		return err
	}
	return f()
}

// reset ends the context and frees everything in it, on the engine's thread, which then ends too.
func (e *engine) reset() {
	cu.Device(e.Index).ResetPrimaryCtx() // it returns an error that is already known
	close(e.ended)
}

// stop ends the context of an engine and its thread. It fails if the thread is still in the driver: such a device cannot be
// opened again.
func (e *engine) stop() error {
	e.pinned.Lock()
	defer e.pinned.Unlock()
	select {
	case e.jobs <- e.reset:
	case <-e.stuck:
	case <-e.ended:
	}
	select {
	case <-e.ended:
		return nil
	case <-e.stuck:
		select {
		case <-e.ended:
			return nil
		default:
			return e.failure()
		}
	}
}
