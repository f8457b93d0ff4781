package cpu

import (
	"slices"
	"unsafe"

	"latentbeam/kernels"
)

// epilogue is applied to a product before it is stored; Linear and Conv share it.
type epilogue struct {
	math     *rowMath
	stores   *storeRoutines
	dst      rows
	bias     []float32
	act      kernels.UnaryOp
	gate     rows // not used if its view is nil
	residual rows
	onto     rows // initial values of the sums; not used if its view is nil
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
	case act > kernels.Tanh:
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

// initSums copies a part of onto, m rows from row0 and cols columns from j, to the sums at c. Rows of sums are width floats
// apart; initSums clears the rest of each row.
func (e *epilogue) initSums(w *worker, c unsafe.Pointer, width, row0, j, m, cols int) {
	sums, scratch := unsafe.Slice((*float32)(c), m*width), w.floats(0, cols)
	for i := range m {
		copy(sums[i*width:][:cols], e.onto.read(scratch, e.onto.offset(row0+i)+j*e.onto.step, e.onto.step, cols))
		clear(sums[i*width+cols : (i+1)*width])
	}
}

// storeRoutines holds the routines of an instruction set that store sums in dense rows. A nil routine means that sums are finished
// row by row.
type storeRoutines struct {
	// plain rounds sums to the type of dst and stores them; biased adds the bias first. The index is the type of dst.
	plain, biased [kernels.F16 + 1]func(dst, src, bias unsafe.Pointer, dstStride, srcStride, rows, columns int)

	// These routines change the sums in place, for a destination of bf16.
	biasRound blockFunc // adds one row of fp32 to every row, then rounds to bf16
	mulRound  blockFunc // multiplies by rows of bf16, then rounds to bf16
	add       blockFunc // adds rows of bf16
}

// blockFunc combines rows of sums with rows of another operand. Strides are in bytes.
type blockFunc func(sums, other unsafe.Pointer, stride, otherStride, rows, columns int)

// block is a part of the sums: the rows and columns of dst from (row0, col0) on. Rows are width floats apart in memory.
type block struct {
	sums              []float32
	width, rows, cols int
	row0, col0        int
}

// at returns the address of row i of the block.
func (b *block) at(i int) unsafe.Pointer { return unsafe.Pointer(&b.sums[i*b.width]) }

// row returns row i of the block.
func (b *block) row(i int) []float32 { return b.sums[i*b.width:][:b.cols] }

// finish completes m rows and cols columns of sums, whose rows are width floats apart, and stores them in dst from row0 and
// column j on. If dst has 16 bits, every intermediate is rounded to its type.
func (e *epilogue) finish(w *worker, c unsafe.Pointer, width, row0, j, m, cols int) {
	b := &block{unsafe.Slice((*float32)(c), m*width), width, m, cols, row0, j}
	if e.bias != nil && e.act == kernels.Identity && e.gate.view == nil && e.residual.view == nil &&
		e.store(e.stores.biased[e.dst.DType], c, width, row0, j, m, cols) {
		return
	}
	rounded := e.addBias(b)
	round := func() {
		if !rounded {
			e.round(w, b.sums)
		}
		rounded = false
	}
	if e.act != kernels.Identity {
		round()
		e.math.activate(b.sums, e.act) // the padding of a panel is never stored, so it may become anything
	}
	if e.gate.view != nil {
		round()
		rounded = e.combine(w, b, &e.gate, e.stores.mulRound, e.math.mul) // mulRound has rounded
	}
	if e.residual.view != nil {
		round()
		e.combine(w, b, &e.residual, e.stores.add, e.math.add)
	}
	if e.store(e.stores.plain[e.dst.DType], c, width, row0, j, m, cols) {
		return
	}
	for i := range m {
		e.dst.store(b.row(i), e.dst.offset(row0+i)+j*e.dst.step, e.dst.step)
	}
}

// addBias adds the bias, if there is one, and reports whether it also rounded the sums.
func (e *epilogue) addBias(b *block) bool {
	if e.bias == nil {
		return false
	}
	bias := e.bias[b.col0 : b.col0+b.cols]
	if e.dst.DType == kernels.BF16 && e.stores.biasRound != nil {
		e.stores.biasRound(b.at(0), unsafe.Pointer(&bias[0]), b.width*4, 0, b.rows, b.cols)
		return true
	}
	for i := range b.rows {
		e.math.add(b.row(i), b.row(i), bias)
	}
	return false
}

// store stores all rows with f and reports whether it did: it does not if f is nil or dst has no dense rows.
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

// combine applies an operation to the sums and the same part of other. It calls dense if it can,
// otherwise byRow for each row, and reports whether it called dense.
func (e *epilogue) combine(
	w *worker, b *block, other *rows, dense blockFunc, byRow func(dst, a, b []float32),
) bool {
	if dense != nil && e.dst.DType == kernels.BF16 && other.DType == kernels.BF16 && other.step == 1 {
		for i := 0; i < b.rows; {
			n := min(b.rows-i, other.run-(b.row0+i)%other.run)
			dense(b.at(i), other.pointer(other.offset(b.row0+i)+b.col0), b.width*4, other.jump*2, n, b.cols)
			i += n
		}
		return true
	}
	scratch := w.floats(0, b.cols)
	for i := range b.rows {
		off := other.offset(b.row0+i) + b.col0*other.step
		byRow(b.row(i), b.row(i), other.read(scratch, off, other.step, b.cols))
	}
	return false
}

// round rounds sums to the destination's type.
func (e *epilogue) round(w *worker, sums []float32) {
	if e.dst.DType != kernels.F32 {
		w.round(e.math, e.dst.DType, sums)
	}
}
