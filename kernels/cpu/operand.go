package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// dotFor returns how a product of these types is summed: in pairs of bf16 if both operands are bf16 and the tier supports it,
// else in fp32.
func (t *tier) dotFor(x, w kernels.DType) dot {
	switch {
	case x != kernels.BF16 || w != kernels.BF16:
		return dotF32
	case t.kernels[dotBF16] != nil:
		return dotBF16
	case t.kernels[dotPairs] != nil:
		return dotPairs
	}
	return dotF32
}

// pointer returns the address of the element at off.
func (v *view) pointer(off int) unsafe.Pointer {
	if v.DType == kernels.F32 {
		return unsafe.Add(unsafe.Pointer(unsafe.SliceData(v.buf.f32)), off*4)
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(v.buf.u16)), off*2)
}

// stripInPlace returns a as the micro-kernels read it without a copy. ok is false if a must be copied first: because of another type,
// a step inside its rows, an odd number of bf16 at their ends, short runs, or a distance between rows that causes cache
// conflicts.
func stripInPlace(a *rows, d dot) (s strip, ok bool) {
	size := a.DType.Size()
	s = strip{run: max(1, a.count), lda: a.jump * size}
	switch {
	case d != dotBF16 && a.DType != kernels.F32, d == dotBF16 && a.n%2 != 0, a.step != 1 && a.n > 1,
		a.depth > 1, a.depth == 1 && a.run < maxRows,
		s.lda%strideTrap == 0 && min(a.run, a.count) > 2:
		return strip{}, false
	case a.depth == 1:
		s.run, s.jump = a.run, a.axes[0].jump*size
	}
	if a.count > 0 && a.n > 0 {
		s.a = a.pointer(a.start)
	}
	return s, true
}

// prepareLeft makes the rows g.a the strip of g, in place or as a copy in the arena. The caller has marked the arena and resets it.
func (b *Backend) prepareLeft(op string) bool {
	g := &b.gemm
	var ok bool
	if g.strip, ok = stripInPlace(&g.a, g.dot); ok {
		return true
	}
	lda := padRow(g.dot.terms(g.a.n) * 4)
	p, _, err := b.arena.acquire(g.a.count * lda)
	if err != nil {
		b.fail("%s: %w", op, err)
		return false
	}
	g.strip = strip{a: p, run: max(1, g.a.count), lda: lda}
	b.eachOf(len(b.crew.workers), op, (g.a.count+copyRowsOfTask-1)/copyRowsOfTask, b.copyLeftTask)
	return b.err == nil
}

// copyRowsOfTask is the number of rows that one task of runCopyLeft copies.
const copyRowsOfTask = 16

// runCopyLeft copies rows of A as terms.
func (b *Backend) runCopyLeft(_ *worker, task int) {
	g := &b.gemm
	for i := task * copyRowsOfTask; i < min(g.a.count, (task+1)*copyRowsOfTask); i++ {
		g.a.copyTerms(unsafe.Add(g.strip.a, i*g.strip.lda), g.a.offset(i), g.a.n, g.dot)
	}
}

// padRow rounds a row's size up to whole cache lines, and adds one more line if that distance would cause cache conflicts.
func padRow(bytes int) int {
	bytes = (bytes + lineSize - 1) / lineSize * lineSize
	if bytes%strideTrap == 0 {
		bytes += lineSize
	}
	return bytes
}

// copyTerms writes n elements at off as terms; the missing half of the last pair is zero.
func (r *rows) copyTerms(dst unsafe.Pointer, off, n int, d dot) {
	if n == 0 {
		return
	}
	if d != dotBF16 {
		terms := unsafe.Slice((*float32)(dst), d.terms(n))
		r.load(terms[:n], off, r.step)
		clear(terms[n:])
		return
	}
	pairs := unsafe.Slice((*uint16)(dst), 2*d.terms(n))
	pairs[len(pairs)-1] = 0
	if r.step == 1 {
		copy(pairs, r.buf.u16[off:off+n])
		return
	}
	for i := range n {
		pairs[i] = r.buf.u16[off+i*r.step]
	}
}
