//go:build cuda && linux

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/driver"
)

// refills replaces weights concurrently with the work of a backend: it has its own stream and its own staging.
type refills struct {
	stream  cu.Stream
	staging *staging
}

// Refill starts to copy data to the weight t when the work enqueued so far has ended. Work enqueued later is not delayed; work
// enqueued after ready waits for the data.
func (b *Backend) Refill(t kernels.Tensor, data func() []byte) (ready func()) {
	const op = "refill"
	o, ok := b.resolve(op, t)
	if !ok || !b.checkPresent(op, []string{"weight"}, o) {
		return func() {}
	}
	w := o[0]
	if !w.buf.weight || t.Offset != 0 || !t.Contiguous() {
		b.fail("refill: the tensor %v is not a whole weight", t.Shape)
		return func() {}
	}
	if err := b.openRefills(); err != nil {
		b.fail("refill: %w", err)
		return func() {}
	}
	w.buf.mu.Lock()
	w.buf.packed = nil
	w.buf.mu.Unlock()
	before, after, r := b.event(), b.event(), b.refills
	b.recordEvent(before)
	b.push(command{op: op, run: func() error {
		return driver.Check("cuStreamWaitEvent", r.stream.Wait(*before, 0))
	}})
	b.flush()
	copied := make(chan error, 1)
	go func() {
		var err error
		if bytes := data(); len(bytes) == w.buf.size {
			err = r.staging.upload(w.buf.ptr, bytes, r.stream)
		} else {
			err = fmt.Errorf("%d bytes for the weight %v, which has %d", len(bytes), t.Shape, w.buf.size)
		}
		if err == nil {
			err = b.eng.runAndWait(func() error { return record(after, r.stream) })
		}
		copied <- err
	}()
	return func() {
		if err := <-copied; err != nil {
			b.fail("refill: %w", err)
			return
		}
		b.push(command{op: op, run: func() error {
			return driver.Check("cuStreamWaitEvent", b.stream.Wait(*after, 0))
		}})
		b.events = append(b.events, before, after)
	}
}

// openRefills makes the stream and the staging of refills at the first use.
func (b *Backend) openRefills() error {
	if b.refills != nil {
		return nil
	}
	r := &refills{staging: &staging{eng: b.eng}}
	err := b.eng.runAndWait(func() (err error) {
		r.stream, err = cu.MakeStream(cu.NonBlocking)
		return driver.Check("cuStreamCreate", err)
	})
	if err != nil {
		return err
	}
	b.refills = r
	b.freeWithBackend(r.stream, r.staging)
	return nil
}
