package kerneltest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"latentbeam/kernels"
)

// Deferred makes a very strict device of inner. Nothing runs before Wait or Download; then everything runs in order.
// New memory is full of NaN, and a tensor that is used after its scope is an error. So some mistakes fail here before
// they fail on a GPU: to look at the memory of a tensor, to rely on zeroed memory, to keep a tensor too long, and to
// expect an error early.
func Deferred(inner kernels.Backend) kernels.Backend {
	return &deferred{inner: inner, card: inner.Capabilities().Refiller}
}

type deferred struct {
	inner  kernels.Backend
	card   kernels.Refiller // inner, where it has a memory of its own
	queue  []func()
	scopes [][]*late // open scopes, and what was allocated in each
	err    error
}

// late is the memory of a tensor. inner allocates it when the queue runs. Only Tensor.Buf of views that this backend made
// points to it.
type late struct {
	owner *deferred
	real  kernels.Tensor // dense, the whole allocation; set when the queue runs
	ended bool           // its scope has ended, in the order of the calls

	queued int // operations in the queue that write to it
}

func (d *deferred) Class() string  { return d.inner.Class() }
func (d *deferred) Device() string { return d.inner.Device() }

// Capabilities are Time, and Refiller if inner has one.
func (d *deferred) Capabilities() kernels.Capabilities {
	can := kernels.Capabilities{Time: d.time, ReLU: d.inner.Capabilities().ReLU, Int8: d.inner.Capabilities().Int8}
	if d.card != nil {
		can.Refiller = d
	}
	return can
}

// Refill exchanges a weight in its turn.
func (d *deferred) Refill(t kernels.Tensor, data func() []byte) (ready func()) {
	var done func()
	d.queue = append(d.queue, func() { done = d.card.Refill(t, data) })
	return func() { d.queue = append(d.queue, func() { done() }) }
}

// Weights come from the inner backend at once: they belong to the device.
func (d *deferred) Weights(dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	return d.inner.Weights(dt, shape, data)
}

// later queues f, which gets the operands as inner knows them.
func (d *deferred) later(op string, operands []kernels.Tensor, f func(t []kernels.Tensor)) {
	for i, t := range operands {
		if buf := d.own(t); buf != nil && buf.ended {
			d.fail(fmt.Errorf("deferred: %s: operand %d %v was used after the end of its scope", op, i, t.Shape))
		}
	}
	dst := d.own(operands[0])
	if dst != nil {
		dst.queued++
	}
	d.queue = append(d.queue, func() {
		if dst != nil {
			dst.queued--
		}
		real := make([]kernels.Tensor, len(operands))
		for i, t := range operands {
			real[i] = t
			if buf := d.own(t); buf != nil {
				real[i].Buf = buf.real.Buf
			}
		}
		f(real)
	})
}

// own returns the memory of t if this backend allocated it, else nil. Weights are not its own; nor are tensors of another
// backend, but inner will refuse them.
func (d *deferred) own(t kernels.Tensor) *late {
	if buf, ok := t.Buf.(*late); ok && buf.owner == d {
		return buf
	}
	return nil
}

// fromPeer is t as inner knows it, if t belongs to another Deferred device: the source of a copy between peers. The other
// device must have done its work, and the scope of t must not have ended, else t is refused.
func (d *deferred) fromPeer(t kernels.Tensor) kernels.Tensor {
	buf, ok := t.Buf.(*late)
	if !ok || buf.owner == d {
		return t
	}
	switch {
	case buf.ended:
		d.fail(fmt.Errorf("deferred: copy: the peer's tensor %v was used after the end of its scope", t.Shape))
	case buf.real.IsZero() || buf.queued > 0:
		d.fail(fmt.Errorf("deferred: copy: the peer's tensor %v is not computed: its backend was not waited for",
			t.Shape))
	default:
		t.Buf = buf.real.Buf
	}
	return t
}

// fail queues err, so that Wait or Download returns it in order, as with the error of a real device.
func (d *deferred) fail(err error) {
	d.queue = append(d.queue, func() {
		if d.err == nil && d.inner.Wait() == nil {
			d.err = err
		}
	})
}

// flush runs the queue up to the first error and drops the rest.
func (d *deferred) flush() error {
	for i := 0; i < len(d.queue) && d.err == nil; i++ {
		d.queue[i]()
		d.err = cmp.Or(d.err, d.inner.Wait())
	}
	clear(d.queue)
	d.queue = d.queue[:0]
	return d.err
}

// poison fills a dense tensor with NaN.
func (d *deferred) poison(t kernels.Tensor) {
	values := make([]float32, t.Len())
	for i := range values {
		values[i] = nan
	}
	d.inner.Upload(t, values)
}

func (d *deferred) Alloc(dt kernels.DType, shape ...int) kernels.Tensor {
	buf := &late{owner: d}
	shape = slices.Clone(shape)
	if n := len(d.scopes); n > 0 {
		d.scopes[n-1] = append(d.scopes[n-1], buf)
	}
	d.queue = append(d.queue, func() {
		buf.real = d.inner.Alloc(dt, shape...)
		if d.inner.Wait() == nil {
			d.poison(buf.real)
		}
	})
	return kernels.NewTensor(dt, buf, shape...)
}

func (d *deferred) Scope() (end func()) {
	depth, done := len(d.scopes), false
	d.scopes = append(d.scopes, nil)
	var innerEnd func()
	d.queue = append(d.queue, func() { innerEnd = d.inner.Scope() })
	return func() {
		if done {
			return
		}
		done = true
		depth = min(depth, len(d.scopes))
		for _, scope := range d.scopes[depth:] {
			for _, buf := range scope {
				buf.ended = true
			}
		}
		d.scopes = d.scopes[:depth]
		d.queue = append(d.queue, func() { innerEnd() })
	}
}

func (d *deferred) Wait() error { return d.flush() }

// time is the time between two places of the queue when it runs; see kernels.Capabilities.
func (d *deferred) time(report func(time.Duration)) (end func()) {
	var began time.Time
	d.queue = append(d.queue, func() { began = time.Now() })
	return func() { d.queue = append(d.queue, func() { report(time.Since(began)) }) }
}

func (d *deferred) Download(dst []float32, src kernels.Tensor) error {
	d.later("download", []kernels.Tensor{src}, func(t []kernels.Tensor) {
		d.err = cmp.Or(d.err, d.inner.Download(dst, t[0]))
	})
	return d.flush()
}
