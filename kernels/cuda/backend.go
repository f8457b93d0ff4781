//go:build cuda && linux

package cuda

import (
	"fmt"
	"runtime"
	"slices"

	"gorgonia.org/cu"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/driver"
)

// Backend implements kernels.Backend on one stream of a GPU. It belongs to one goroutine at a time; several may
// be at work on one device.
type Backend struct {
	queue
	arena   arena
	staging *staging
	refills *refills    // made at the first use
	lens    lengths     // of the last attention that had some
	err     error       // first error; everything after it is dropped
	spans   []span      // whose time was not reported yet
	events  []*cu.Event // free ones
}

var _ kernels.Backend = (*Backend)(nil)

// New returns a backend on device index. Where the device's context has ended by an error, it begins anew, with
// empty memory and another name. The error wraps ErrUnavailable where there is no CUDA.
func New(index int, o Options) (kernels.Backend, error) {
	e, err := engineOf(index)
	if err != nil {
		return nil, err
	}
	return e.backend(o)
}

// backend returns a new backend of an engine.
func (e *engine) backend(o Options) (*Backend, error) {
	b := &Backend{queue: queue{eng: e, most: flushFirstAt}, arena: arena{eng: e, limit: int(o.Memory)}, staging: &staging{eng: e}}
	err := e.do(func() (err error) {
		b.stream, err = cu.MakeStream(cu.NonBlocking)
		return driver.Check("cuStreamCreate", err)
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", e.name(), err)
	}
	b.afterwards(b.stream, b.staging)
	return b, nil
}

// afterwards gives a stream and its staging back when the backend is not referred to any more.
func (b *Backend) afterwards(stream cu.Stream, blocks *staging) {
	runtime.AddCleanup(b, func(e *engine) {
		go e.later(func() error {
			if err := driver.Check("cuStreamDestroy", stream.Destroy()); err != nil {
				return err
			}
			return blocks.release()
		})
	}, b.eng)
}

// Class returns the numeric class of the device; see Device.Class.
func (b *Backend) Class() string { return b.eng.Class() }

// Device returns "cuda:" and the number of the device.
func (b *Backend) Device() string { return b.eng.name() }

// Capabilities are all that a device with a memory and a clock of its own can.
func (b *Backend) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{UUID: b.eng.UUID, Refiller: b, Linker: b, Release: b.Release, Peak: b.Peak,
		Time: b.Time}
}

// Wait waits for the stream and returns the first error since the backend was made.
func (b *Backend) Wait() error {
	if b.err == nil {
		b.err = b.sync("wait")
		b.settle()
	}
	return b.err
}

// fail keeps the first error, after those of calls that are under way.
func (b *Backend) fail(format string, args ...any) {
	if b.err != nil {
		return
	}
	if b.err = b.sync("wait"); b.err == nil {
		b.err = fmt.Errorf("cuda: "+format, args...)
	}
}

// open checks the operands of op and resolves them; ok is false when there is nothing more to do. The
// zero Tensor ("none") resolves to nil.
func (b *Backend) open(op string, ts ...kernels.Tensor) (operands []*operand, ok bool) {
	if b.err != nil {
		return nil, false
	}
	operands = make([]*operand, len(ts))
	all := make([]operand, len(ts))
	for i, t := range ts {
		if t.IsZero() {
			continue
		}
		o := &all[i]
		err := o.resolve(t)
		if err == nil && o.buf.eng != b.eng {
			err = fmt.Errorf("the tensor of shape %v belongs to %s, not to %s", t.Shape, o.buf.eng.name(), b.Device())
		}
		if err != nil {
			b.fail("%s: operand %d: %w", op, i, err)
			return nil, false
		}
		operands[i] = o
		if o.buf.own {
			b.keeps(o.buf)
		}
	}
	return operands, true
}

// keeps holds memory until the calls in the queue were made.
func (b *Backend) keeps(buf *buffer) {
	if !slices.Contains(b.keep, buf) {
		b.keep = append(b.keep, buf)
	}
}

// need reports whether the required operands, named in order, are present, and fails where one is not.
func (b *Backend) need(op string, names []string, operands []*operand) bool {
	for i, name := range names {
		if operands[i] == nil {
			b.fail("%s: %s is missing", op, name)
			return false
		}
	}
	return true
}
