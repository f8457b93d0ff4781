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

// Backend implements kernels.Backend on one stream of a GPU. It serves one goroutine at a time; several backends may work
// concurrently on one device.
type Backend struct {
	queue
	arena   arena
	staging *staging
	refills *refills    // made at the first use
	lens    lengths     // of the last attention that had key lengths
	err     error       // first error; everything after it is dropped
	spans   []span      // spans whose time is not reported yet
	events  []*cu.Event // unused events
}

var _ kernels.Backend = (*Backend)(nil)

// New returns a backend on device index. If an error has ended the device's context, New opens a new context: its memory is
// empty, and Device returns another name. The error wraps ErrUnavailable if there is no CUDA.
func New(index int, o Options) (kernels.Backend, error) {
	e, err := engineOf(index)
	if err != nil {
		return nil, err
	}
	return e.backend(o)
}

// backend returns a new backend of an engine.
func (e *engine) backend(o Options) (*Backend, error) {
	b := &Backend{queue: queue{eng: e, flushLimit: flushFirstAt}, arena: arena{eng: e, limit: int(o.Memory)}, staging: &staging{eng: e}}
	err := e.runAndWait(func() (err error) {
		b.stream, err = cu.MakeStream(cu.NonBlocking)
		return driver.Check("cuStreamCreate", err)
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", e.name(), err)
	}
	b.freeWithBackend(b.stream, b.staging)
	return b, nil
}

// freeWithBackend frees a stream and its staging when nothing refers to the backend any more.
func (b *Backend) freeWithBackend(stream cu.Stream, blocks *staging) {
	runtime.AddCleanup(b, func(e *engine) {
		go e.runAsync(func() error {
			if err := driver.Check("cuStreamDestroy", stream.Destroy()); err != nil {
				return err
			}
			return blocks.release()
		})
	}, b.eng)
}

// Class implements kernels.Backend; Device.Class describes the name.
func (b *Backend) Class() string { return b.eng.Class() }

// Device returns "cuda:" and the number of the device.
func (b *Backend) Device() string { return b.eng.name() }

// Capabilities returns the optional abilities of a GPU: refilling and releasing weights, links, peak memory and times.
func (b *Backend) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{UUID: b.eng.UUID, Refiller: b, Linker: b, Release: b.Release, Peak: b.Peak,
		Time: b.Time}
}

// Wait waits for the stream and returns the first error since the backend was made.
func (b *Backend) Wait() error {
	if b.err == nil {
		b.err = b.sync("wait")
		b.reportSpans()
	}
	return b.err
}

// fail waits for the queued calls and records their error. If there is none, fail records the given error. After a first error
// it does nothing.
func (b *Backend) fail(format string, args ...any) {
	if b.err != nil {
		return
	}
	if b.err = b.sync("wait"); b.err == nil {
		b.err = fmt.Errorf("cuda: "+format, args...)
	}
}

// resolve checks the tensors of op and finds their device memory. The operand of the zero Tensor ("none") is nil. ok is false
// if there was an error, also of an earlier call; the caller must then return.
func (b *Backend) resolve(op string, ts ...kernels.Tensor) (operands []*operand, ok bool) {
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
		if o.buf.separate {
			b.retain(o.buf)
		}
	}
	return operands, true
}

// retain keeps memory allocated until the queued calls have been made.
func (b *Backend) retain(buf *buffer) {
	if !slices.Contains(b.retained, buf) {
		b.retained = append(b.retained, buf)
	}
}

// checkPresent reports whether the required operands, named in order, are present. If one is missing it records an error.
func (b *Backend) checkPresent(op string, names []string, operands []*operand) bool {
	for i, name := range names {
		if operands[i] == nil {
			b.fail("%s: %s is missing", op, name)
			return false
		}
	}
	return true
}
