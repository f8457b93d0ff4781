//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import (
	"fmt"
	"unsafe"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda/driver"
)

// Weights copies data to the device, once for all backends that share it, and returns when the copy is complete.
func (b *Backend) Weights(dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	n, err := elements(shape)
	switch {
	case err != nil:
		return kernels.Tensor{}, fmt.Errorf("cuda: weights: %w", err)
	case dt > kernels.F16:
		return kernels.Tensor{}, fmt.Errorf("cuda: weights: element type %v is not supported", dt)
	case len(data) != n*dt.Size():
		return kernels.Tensor{}, fmt.Errorf("cuda: weights: %d bytes for %v of %v, want %d",
			len(data), shape, dt, n*dt.Size())
	}
	buf, err := b.eng.newBuffer(len(data))
	if err == nil {
		err = b.eng.upload(buf, data)
	}
	if err != nil {
		return kernels.Tensor{}, fmt.Errorf("cuda: weights: %w", err)
	}
	buf.weight = true
	return kernels.NewTensor(dt, buf, shape...), nil
}

// upload fills buf and waits until it is full, concurrently with the streams of backends.
func (e *engine) upload(buf *buffer, data []byte) error {
	if err := e.staging.upload(buf.ptr, data, e.copies); err != nil {
		return err
	}
	return e.runAndWait(func() error { return driver.Check("cuStreamSynchronize", e.copies.Synchronize()) })
}

// Upload copies src, row-major, into dst.
func (b *Backend) Upload(dst kernels.Tensor, src []float32) {
	const op = "upload"
	o, ok := b.resolve(op, dst)
	if !ok || !b.checkPresent(op, []string{"dst"}, o) {
		return
	}
	if len(src) != dst.Len() {
		b.fail("upload: %d values for dst %v", len(src), dst.Shape)
		return
	}
	if len(src) == 0 {
		return
	}
	if dst.DType == kernels.F32 && dst.Contiguous() {
		b.store(op, o[0].ptr, bytesOf(src))
		return
	}
	m := b.arena.mark()
	defer b.arena.reset(m)
	if dense, ok := b.scratch(op, kernels.F32, dst.Shape); ok {
		b.store(op, dense.ptr, bytesOf(src))
		b.copyOf(op, o[0], dense)
	}
}

// scratch returns a dense operand in the arena. The caller has marked the arena.
func (b *Backend) scratch(op string, dt kernels.DType, shape []int) (*operand, bool) {
	o := &operand{Tensor: kernels.NewTensor(dt, nil, shape...)}
	p, err := b.arena.acquire(o.Len() * dt.Size())
	if err != nil {
		b.fail("%s: %w", op, err)
		return nil, false
	}
	o.ptr = p
	return o, true
}

// Download copies src, row-major, into dst and returns the first error since the backend was made.
func (b *Backend) Download(dst []float32, src kernels.Tensor) error {
	const op = "download"
	o, ok := b.resolve(op, src)
	if !ok || !b.checkPresent(op, []string{"source"}, o) {
		return b.err
	}
	if len(dst) != src.Len() {
		b.fail("download: source %v into %d values", src.Shape, len(dst))
		return b.err
	}
	from := o[0]
	m := b.arena.mark()
	defer b.arena.reset(m)
	if len(dst) > 0 && (src.DType != kernels.F32 || !src.Contiguous()) {
		if from, ok = b.scratch(op, kernels.F32, src.Shape); ok {
			b.copyOf(op, from, o[0])
		}
	}
	if b.err != nil || len(dst) == 0 {
		return b.Wait()
	}
	b.flush()
	b.err = b.recordWait(op, b.staging.download(bytesOf(dst), from.ptr, b.stream))
	b.reportSpans()
	return b.err
}

// Gather copies row ids[i] of table to row i of dst.
func (b *Backend) Gather(dst, table kernels.Tensor, ids []int32) {
	const op = "gather"
	o, ok := b.resolve(op, dst, table)
	if !ok || !b.checkPresent(op, []string{"dst", "table"}, o) {
		return
	}
	if len(table.Shape) != 2 || len(dst.Shape) != 2 ||
		dst.Shape[0] != len(ids) || dst.Shape[1] != table.Shape[1] {
		b.fail("gather: table %v and dst %v are not (V, C) and (%d, C)", table.Shape, dst.Shape, len(ids))
		return
	}
	for i, id := range ids {
		if id < 0 || int(id) >= table.Shape[0] {
			b.fail("gather: id %d at %d is outside a table of %d rows", id, i, table.Shape[0])
			return
		}
	}
	if dst.Len() == 0 {
		return
	}
	if err := (shape{dims: []int{len(ids), (dst.Shape[1] + 7) / 8}}).countable(); err != nil { // vectors of eight
		b.fail("%s: %w", op, err)
		return
	}
	m := b.arena.mark()
	defer b.arena.reset(m)
	p, ok := b.numbers32(op, ids)
	if !ok {
		return
	}
	a := &C.lb_gather_args{rows: C.lb_i32(len(ids)), columns: C.lb_i32(dst.Shape[1]), ids: C.lb_u64(p),
		dst: o[0].matrix(), table: o[1].matrix()}
	b.launch(op, "gather", C.lb_gather_launch(a), unsafe.Pointer(a))
}

// matrix returns an operand of two axes in the form that kernels read.
func (o *operand) matrix() (v C.lb_view) {
	v.ptr, v.dtype = C.lb_u64(o.ptr), C.lb_i32(o.DType)
	v.stride[0], v.col = C.lb_i64(o.Strides[0]), C.lb_i64(o.Strides[1])
	return v
}
