package kerneltest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"latentbeam/kernels"
)

// Deferred wraps inner as a very strict device. Operations run only at Wait or Download, in order. New memory is full of NaN, and
// using a tensor after its scope is an error. So mistakes that would fail only on a GPU fail here: reading the memory of a tensor
// directly, relying on zeroed memory, keeping a tensor too long, and expecting an error early.
func Deferred(inner kernels.Backend) kernels.Backend {
	return &deferred{inner: inner, card: inner.Capabilities().Refiller}
}

type deferred struct {
	inner  kernels.Backend
	card   kernels.Refiller // the Refiller of inner; nil: it has none
	queue  []func()
	scopes [][]*deferredTensor // tensors that were allocated in each open scope
	err    error
}

// deferredTensor is the memory of a tensor, which inner allocates when the queue runs. Tensor.Buf of the tensors of this backend points
// to it.
type deferredTensor struct {
	owner *deferred
	inner kernels.Tensor // dense, the whole allocation; set when the queue runs
	ended bool           // its scope has ended

	queued int // number of queued operations that write to it
}

func (d *deferred) Class() string  { return d.inner.Class() }
func (d *deferred) Device() string { return d.inner.Device() }

// Capabilities returns Time, and a Refiller if inner has one.
func (d *deferred) Capabilities() kernels.Capabilities {
	can := kernels.Capabilities{Time: d.time, ReLU: d.inner.Capabilities().ReLU, Int8: d.inner.Capabilities().Int8}
	if d.card != nil {
		can.Refiller = d
	}
	return can
}

// Refill queues the replacement of a weight.
func (d *deferred) Refill(t kernels.Tensor, data func() []byte) (ready func()) {
	var done func()
	d.queue = append(d.queue, func() { done = d.card.Refill(t, data) })
	return func() { d.queue = append(d.queue, func() { done() }) }
}

// Weights creates a weight on inner at once, because weights belong to the device, not to a scope.
func (d *deferred) Weights(dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	return d.inner.Weights(dt, shape, data)
}

// later queues f, which gets the operands as tensors of inner.
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
				real[i].Buf = buf.inner.Buf
			}
		}
		f(real)
	})
}

// own returns the memory of t if this backend allocated it. It returns nil for weights and for tensors of other backends, which
// inner rejects.
func (d *deferred) own(t kernels.Tensor) *deferredTensor {
	if buf, ok := t.Buf.(*deferredTensor); ok && buf.owner == d {
		return buf
	}
	return nil
}

// fromPeer returns t, the source of a copy, as a tensor of inner if t belongs to another Deferred device. It fails the device if
// the other one has not finished its work or the scope of t has ended.
func (d *deferred) fromPeer(t kernels.Tensor) kernels.Tensor {
	buf, ok := t.Buf.(*deferredTensor)
	if !ok || buf.owner == d {
		return t
	}
	switch {
	case buf.ended:
		d.fail(fmt.Errorf("deferred: copy: the peer's tensor %v was used after the end of its scope", t.Shape))
	case buf.inner.IsZero() || buf.queued > 0:
		d.fail(fmt.Errorf("deferred: copy: the peer's tensor %v is not computed: its backend was not waited for",
			t.Shape))
	default:
		t.Buf = buf.inner.Buf
	}
	return t
}

// fail queues err, so that Wait or Download returns it in order, as for an error of a real device.
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
	buf := &deferredTensor{owner: d}
	shape = slices.Clone(shape)
	if n := len(d.scopes); n > 0 {
		d.scopes[n-1] = append(d.scopes[n-1], buf)
	}
	d.queue = append(d.queue, func() {
		buf.inner = d.inner.Alloc(dt, shape...)
		if d.inner.Wait() == nil {
			d.poison(buf.inner)
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

// time measures the time between two positions of the queue while it runs; see kernels.Capabilities.
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
