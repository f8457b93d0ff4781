//go:build cuda && linux

package cuda

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// queue is the driver calls of a backend that its engine's thread has not got yet, in order. Handing them over
// one by one would cost more than the calls.
type queue struct {
	eng     *engine
	stream  cu.Stream
	pending []command
	keep    []*buffer             // whose memory must be there until the calls are made
	sent    [][]byte              // host memory that the device may not have read yet
	late    atomic.Pointer[error] // the first error of a call
}

// command is a driver call of an operation.
type command struct {
	op  string
	run func() error
}

// flushAt is how many calls wait at most: the first ones should reach the device soon.
const flushAt = 32

// push adds a call.
func (q *queue) push(op string, run func() error) {
	q.pending = append(q.pending, command{op, run})
	if len(q.pending) >= flushAt {
		q.flush()
	}
}

// flush gives all calls to the engine's thread.
func (q *queue) flush() {
	if len(q.pending) == 0 {
		return
	}
	batch, keep := q.pending, q.keep
	q.pending, q.keep = make([]command, 0, flushAt), nil
	err := q.eng.post(func() { q.make(batch, keep) })
	if err != nil {
		q.fail(batch[0].op, err)
	}
}

// make makes the calls of a batch, on the engine's thread, up to the first that fails. keep is what they use.
func (q *queue) make(batch []command, keep []*buffer) {
	for _, c := range batch {
		if q.late.Load() != nil {
			return
		}
		if err := q.eng.guarded(c.run); err != nil {
			q.fail(c.op, err)
		}
	}
	runtime.KeepAlive(keep)
}

// fail keeps the first error.
func (q *queue) fail(op string, err error) {
	err = fmt.Errorf("cuda: %s: %w", op, err)
	q.late.CompareAndSwap(nil, &err)
}

// sync waits until the device has done everything.
func (q *queue) sync(op string) error {
	q.flush()
	err := q.eng.do(func() error { return driver.Check("cuStreamSynchronize", q.stream.Synchronize()) })
	if err != nil {
		q.fail(op, err)
	} else {
		q.sent = nil
	}
	if p := q.late.Load(); p != nil {
		return *p
	}
	return nil
}
