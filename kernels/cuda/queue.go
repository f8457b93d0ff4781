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
	most    int                   // of them
	keep    []*buffer             // whose memory must be there until the calls are made
	sent    [][]byte              // host memory that the device may not have read yet
	late    atomic.Pointer[error] // the first error of a call
	passed  *cu.Event             // recorded behind all that the stream was given; nil: unknown
}

// command is a driver call of an operation. Launches and records, which are almost all of them, need no closure.
type command struct {
	op     string
	launch launch
	event  *cu.Event    // to be recorded
	run    func() error // any other call
}

// make makes the call, on the engine's thread.
func (c *command) make(e *engine, stream cu.Stream) error {
	switch {
	case c.run != nil:
		return c.run()
	case c.event != nil:
		return record(c.event, stream)
	}
	return e.launch(c.launch, stream)
}

// flushAt is how many calls wait at most. Of a device that has nothing to do fewer wait, twice as many each time: the
// first ones should reach it soon.
const (
	flushAt      = 32
	flushFirstAt = 4
)

// push adds a call.
func (q *queue) push(c command) {
	q.pending = append(q.pending, c)
	q.passed = nil
	if len(q.pending) >= q.most {
		q.flush()
	}
}

// flush gives all calls to the engine's thread. Whoever uses the stream without the queue flushes before.
func (q *queue) flush() {
	q.passed = nil
	if len(q.pending) == 0 {
		return
	}
	q.most = min(2*q.most, flushAt)
	batch, keep := q.pending, q.keep
	q.pending, q.keep = make([]command, 0, flushAt), nil
	err := q.eng.post(func() { q.make(batch, keep) })
	if err != nil {
		q.fail(batch[0].op, err)
	}
}

// make makes the calls of a batch, on the engine's thread, up to the first that fails. keep is what they use.
func (q *queue) make(batch []command, keep []*buffer) {
	for i := range batch {
		if q.late.Load() != nil {
			return
		}
		c := &batch[i]
		if err := q.eng.guarded(func() error { return c.make(q.eng, q.stream) }); err != nil {
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
	return q.waited(op, q.eng.do(func() error {
		return driver.Check("cuStreamSynchronize", q.stream.Synchronize())
	}))
}

// waited notes that the stream was waited for, which gave err, and returns the first error.
func (q *queue) waited(op string, err error) error {
	if err != nil {
		q.fail(op, err)
	} else {
		q.sent, q.most = nil, flushFirstAt
	}
	if p := q.late.Load(); p != nil {
		return *p
	}
	return nil
}
