//go:build cuda && linux

package cuda

// #include "plan.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/driver"
)

// resolveSource resolves the source of a copy, which may be on another device; nil if it cannot be read. The caller has marked the
// arena.
func (b *Backend) resolveSource(op string, t kernels.Tensor) *operand {
	if t.IsZero() {
		b.fail("%s: source is missing", op)
		return nil
	}
	o, err := newOperand(t)
	if err != nil {
		b.fail("%s: operand 1: %w", op, err)
		return nil
	}
	if o.buf.separate {
		b.retained = append(b.retained, o.buf)
	}
	if o.buf.eng == b.eng || t.Len() == 0 {
		return o
	}
	if err := o.buf.eng.failure(); err != nil {
		b.fail("%s: the peer's tensor %v: %w", op, t.Shape, err)
		return nil
	}
	readable, err := b.eng.canReadFrom(o.buf.eng)
	if err == nil && !readable {
		o, err = b.copyFromDevice(o)
	}
	if err != nil {
		b.fail("%s: from %s: %w", op, t.Buf.(*buffer).eng.name(), err)
		return nil
	}
	return o
}

// canReadFrom reports whether e's kernels can read the other device's memory, over NVLink or PCIe.
func (e *engine) canReadFrom(other *engine) (can bool, err error) {
	err = e.runAndWait(func() error {
		var known bool
		if can, known = e.peers[other]; known {
			return nil
		}
		able, err := cu.Device(e.Index).CanAccessPeer(cu.Device(other.Index))
		if err != nil {
			return driver.Check("cuDeviceCanAccessPeer", err)
		}
		if can = able != 0; can {
			if can, err = e.enablePeer(other); err != nil {
				return err
			}
		}
		e.peers[other] = can
		return nil
	})
	return can, err
}

// enablePeer maps the other device's memory, on the engine's thread. can is false if the device already has the maximal number
// of peers (eight without NVSwitch), or the system does not support it.
func (e *engine) enablePeer(other *engine) (can bool, err error) {
	err = driver.Check("cuCtxEnablePeerAccess", other.ctx.EnablePeerAccess(0))
	var answer *driver.Error
	if errors.As(err, &answer) {
		switch answer.Code {
		case peersEnabled: // it was enabled before
			return true, nil
		case tooManyPeers, peersUnsupported:
			return false, nil
		}
	}
	return err == nil, err
}

// copyFromDevice copies o from another device, whose memory this one cannot read, through host memory to the arena. Operands with gaps
// are packed on the other device first.
func (b *Backend) copyFromDevice(o *operand) (*operand, error) {
	from, bytes := o.buf.eng, o.Len()*o.DType.Size()
	dense := o
	if !o.Contiguous() {
		packed, err := from.newBuffer(bytes)
		if err != nil {
			return nil, err
		}
		dense = &operand{Tensor: kernels.NewTensor(o.DType, packed, o.Shape...), buf: packed, ptr: packed.ptr}
		launches, err := packing(dense, o)
		if err != nil {
			return nil, err
		}
		err = from.runAndWait(func() error {
			for _, l := range launches {
				if err := from.launch(l, from.copies); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	p, err := b.arena.acquire(bytes)
	if err != nil {
		return nil, err
	}
	b.flush() // queued calls may still use the memory
	err = b.eng.route(from).copyTo(p, dense.ptr, bytes, b.stream)
	runtime.KeepAlive(dense.buf)
	return &operand{Tensor: kernels.NewTensor(o.DType, nil, o.Shape...), ptr: p}, err
}

// packing returns the launches that copy src to dst.
func packing(dst, src *operand) (launches []launch, err error) {
	for _, part := range parts(dst, src) {
		s, err := newShape(len(dst.Shape), part...)
		if err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
		a := &C.lb_map_args{shape: s.axes(), dst: s.view(0, part[0], 0), a: s.view(1, part[1], 0)}
		var across C.int
		l := C.lb_plan_unary(a, &across)
		name := [...]string{"map_unary", "transpose"}[across]
		launches = append(launches, launch{name, threadsOf(l), unsafe.Pointer(a)})
	}
	return launches, nil
}
