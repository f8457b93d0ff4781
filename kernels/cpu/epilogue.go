package cpu

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

// epilogue is what happens to a product before it is stored; Linear and Conv share it.
type epilogue struct {
	math     *rowMath
	stores   *storeMath
	dst      rows
	bias     []float32
	act      kernels.UnaryOp
	gate     rows // without a view: none
	residual rows
	onto     rows // what the sums are added to
}

// newEpilogue checks the operands of an epilogue that writes dst.
func (b *Backend) newEpilogue(
	op string, dst, bias, residual, gate *view, act kernels.UnaryOp,
) (epilogue, bool) {
	e := epilogue{math: &b.tier.row, stores: &b.tier.store, dst: newRows(dst), act: act}
	switch {
	case bias != nil && (len(bias.Shape) != 1 || bias.Shape[0] != e.dst.n):
		b.fail("%s: bias %v for dst %v", op, bias.Shape, dst.Shape)
	case residual != nil && !slices.Equal(residual.Shape, dst.Shape):
		b.fail("%s: residual %v for dst %v", op, residual.Shape, dst.Shape)
	case gate != nil && !slices.Equal(gate.Shape, dst.Shape):
		b.fail("%s: gate %v for dst %v", op, gate.Shape, dst.Shape)
	case act > kernels.Sigmoid:
		b.fail("%s: unary operation %d is not supported", op, act)
	}
	if b.err != nil {
		return e, false
	}
	if bias != nil {
		if len(b.bias) < e.dst.n {
			b.bias = make([]float32, e.dst.n)
		}
		e.bias = bias.read(b.bias, bias.Offset, bias.Strides[0], e.dst.n)
	}
	if residual != nil {
		e.residual = newRows(residual)
	}
	if gate != nil {
		e.gate = newRows(gate)
	}
	return e, true
}

// begin sets m rows and cols columns of sums, width floats apart, to those of onto from row0 and column j.
func (e *epilogue) begin(w *worker, c unsafe.Pointer, width, row0, j, m, cols int) {
	sums, scratch := unsafe.Slice((*float32)(c), m*width), w.floats(0, cols)
	for i := range m {
		copy(sums[i*width:][:cols], e.onto.read(scratch, e.onto.offset(row0+i)+j*e.onto.step, e.onto.step, cols))
		clear(sums[i*width+cols : (i+1)*width])
	}
}

// storeMath is what a tier has to store finished sums in dense rows, by the destination's type; where it has
// nothing they are stored row by row.
type storeMath struct {
	plain, biased [kernels.F16 + 1]func(dst, src, bias unsafe.Pointer, dstStride, srcStride, rows, columns int)
}

// finish completes m rows and cols columns of sums, width floats apart, and stores them as the rows from
// row0 and the columns from j of dst. A destination of 16 bits gets every intermediate rounded to its type.
func (e *epilogue) finish(w *worker, c unsafe.Pointer, width, row0, j, m, cols int) {
	sums := unsafe.Slice((*float32)(c), m*width)
	if e.bias != nil {
		if e.act == kernels.Identity && e.gate.view == nil && e.residual.view == nil &&
			e.store(e.stores.biased[e.dst.DType], c, width, row0, j, m, cols) {
			return
		}
		for i := range m {
			part := sums[i*width:][:cols]
			e.math.add(part, part, e.bias[j:j+cols])
		}
	}
	if e.act != kernels.Identity {
		e.round(w, sums)
		e.math.activate(sums, e.act) // what fills up a panel has no meaning, so it may become anything
	}
	if e.gate.view != nil {
		e.round(w, sums)
		e.combine(w, e.math.mul, &e.gate, sums, width, row0, j, m, cols)
	}
	if e.residual.view != nil {
		e.round(w, sums)
		e.combine(w, e.math.add, &e.residual, sums, width, row0, j, m, cols)
	}
	if e.store(e.stores.plain[e.dst.DType], c, width, row0, j, m, cols) {
		return
	}
	for i := range m {
		e.dst.store(sums[i*width:][:cols], e.dst.offset(row0+i)+j*e.dst.step, e.dst.step)
	}
}

// store stores all rows by f and reports whether it could: f may be nil, dst may not have dense rows.
func (e *epilogue) store(
	f func(dst, src, bias unsafe.Pointer, dstStride, srcStride, rows, columns int), c unsafe.Pointer,
	width, row0, j, m, cols int,
) bool {
	if f == nil || e.dst.step != 1 || e.dst.depth > 0 {
		return false
	}
	var bias unsafe.Pointer
	if e.bias != nil {
		bias = unsafe.Pointer(&e.bias[j])
	}
	f(e.dst.pointer(e.dst.offset(row0)+j), c, bias, e.dst.jump*e.dst.DType.Size(), width*4, m, cols)
	return true
}

// combine applies f to the sums and the same part of other.
func (e *epilogue) combine(
	w *worker, f func(dst, a, b []float32), other *rows, sums []float32, width, row0, j, m, cols int,
) {
	scratch := w.floats(0, cols)
	for i := range m {
		part := sums[i*width:][:cols]
		f(part, part, other.read(scratch, other.offset(row0+i)+j*other.step, other.step, cols))
	}
}

// round rounds sums to the destination's type.
func (e *epilogue) round(w *worker, sums []float32) {
	if e.dst.DType == kernels.F32 {
		return
	}
	half := unsafe.Slice((*uint16)(w.half.take(len(sums)*2)), len(sums))
	e.math.narrow[e.dst.DType](half, sums)
	e.math.widen[e.dst.DType](sums, half)
}
