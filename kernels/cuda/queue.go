//go:build cuda && linux

package cuda

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"gorgonia.org/cu"

	"latentbeam/kernels/cuda/driver"
)

// queue holds the driver calls of a backend that have not been passed to its engine's thread yet, in order. Passing them one by
// one would cost more than the calls.
type queue struct {
	eng        *engine
	stream     cu.Stream
	pending    []command
	flushLimit int                   // flush at this number of calls
	retained   []*buffer             // buffers whose memory must exist until the calls are made
	sent       [][]byte              // host memory that the device may not have read yet
	callError  atomic.Pointer[error] // the first error of a call
	doneEvent  *cu.Event             // recorded after all work of the stream; nil: unknown
}

// command is a driver call of an operation. Launches and records, which are almost all calls, need no closure.
type command struct {
	op     string
	launch launch
	event  *cu.Event    // event to record
	run    func() error // any other call
}

// makeCall makes the call, on the engine's thread.
func (c *command) makeCall(e *engine, stream cu.Stream) error {
	switch {
	case c.run != nil:
		return c.run()
	case c.event != nil:
		return record(c.event, stream)
	}
	return e.launch(c.launch, stream)
}

// flushAt is the greatest number of calls that wait. If the device is idle, fewer calls wait, twice as many each time, so that
// the first ones reach it soon.
const (
	flushAt      = 32
	flushFirstAt = 4
)

// push adds a call.
func (q *queue) push(c command) {
	q.pending = append(q.pending, c)
	q.doneEvent = nil
	if len(q.pending) >= q.flushLimit {
		q.flush()
	}
}

// flush passes all calls to the engine's thread. Code that uses the stream without the queue must flush first.
func (q *queue) flush() {
	q.doneEvent = nil
	if len(q.pending) == 0 {
		return
	}
	q.flushLimit = min(2*q.flushLimit, flushAt)
	batch, keep := q.pending, q.retained
	q.pending, q.retained = make([]command, 0, flushAt), nil
	err := q.eng.enqueue(func() { q.makeCalls(batch, keep) })
	if err != nil {
		q.fail(batch[0].op, err)
	}
}

// makeCalls makes the calls of a batch, on the engine's thread, up to the first that fails. keep holds the buffers that they use.
func (q *queue) makeCalls(batch []command, keep []*buffer) {
	for i := range batch {
		if q.callError.Load() != nil {
			return
		}
		c := &batch[i]
		if err := q.eng.recoverPanic(func() error { return c.makeCall(q.eng, q.stream) }); err != nil {
			q.fail(c.op, err)
		}
	}
	runtime.KeepAlive(keep)
}

// fail records the first error.
func (q *queue) fail(op string, err error) {
	err = fmt.Errorf("cuda: %s: %w", op, err)
	q.callError.CompareAndSwap(nil, &err)
}

// sync waits until the device has completed all work.
func (q *queue) sync(op string) error {
	q.flush()
	return q.recordWait(op, q.eng.runAndWait(func() error {
		return driver.Check("cuStreamSynchronize", q.stream.Synchronize())
	}))
}

// recordWait records that the stream was waited for, with the result err, and returns the first error.
func (q *queue) recordWait(op string, err error) error {
	if err != nil {
		q.fail(op, err)
	} else {
		q.sent, q.flushLimit = nil, flushFirstAt
	}
	if p := q.callError.Load(); p != nil {
		return *p
	}
	return nil
}
