package cpu

import "unsafe"

// maxRows is the largest number of rows of any micro-kernel.
const maxRows = 12

// reduce is one batch of products for the micro-kernels, the one family below Linear, Conv and Attention:
//
//	C (m, n) = [C +] sum over blocks i of A_i (m, k) B_i (k, n)
//
// C is fp32. A is read in place: row r of block i starts at a + offs[i] + r*lda and holds k contiguous terms. B is packed (see
// packNK) and its blocks are consecutive in each panel. A term is a dword: one fp32, or a pair of bf16. Each sum runs over the
// blocks and their terms in order, in one chain, whatever m and n are. With add, its total is then added to C; with separate,
// each block is a chain of its own, whose total is added to C. (With tiles, the chain starts with the value in C instead.) So a
// row's bits depend on k and blocks alone.
//
// The generated assembly depends on the order of the fields.
type reduce struct {
	c      unsafe.Pointer // fp32; columns up to the panel's width are written
	ldc    int            // bytes between rows of C
	blocks int
	offs   unsafe.Pointer // *int64, one per block, in bytes
	a      unsafe.Pointer
	b      unsafe.Pointer
	k      int // terms per block
	lda    int // bytes between rows of A; a multiple of 4096 is slow (see strideTrap)
	add    int // 1 adds to C, 0 overwrites it; undefined after the call if separate is 1
	// separate is 1 if each block is summed on its own and then added to C; see tier.separateBlocks.
	separate int

	// Memory that will be read next and is prefetched during the computation: two lines, aheadStride bytes apart, per
	// aheadTerms terms, starting at ahead. 0 prefetches nothing. See startPrefetch.
	ahead          uintptr
	aheadStride    int
	prefetchedRows int     // number of rows whose current lines are prefetched
	prefetchRows   int     // number of all rows
	prefetchBase   uintptr // address of the current lines of the first row
	prefetchEnd    uintptr // end of the first row
}

// The rows of a prefetching kernel, and its rate: aheadBytes per aheadTerms terms.
const aheadRows, aheadBytes, aheadTerms = 6, 2 * lineSize, 8

// startPrefetch makes kernels prefetch rows of size bytes, stride bytes apart: two lines of each row, then the next two.
func (r *reduce) startPrefetch(at uintptr, stride, rows, size int) {
	r.ahead, r.prefetchBase, r.prefetchEnd = at, at, at+uintptr(size)
	r.aheadStride, r.prefetchedRows, r.prefetchRows = stride, 0, rows
}

// advancePrefetch moves ahead past the lines that one call has prefetched.
func (r *reduce) advancePrefetch() {
	if r.prefetchedRows += r.blocks * (r.k / aheadTerms); r.prefetchedRows >= r.prefetchRows {
		r.prefetchedRows = 0
		if r.prefetchBase += aheadBytes; r.prefetchBase >= r.prefetchEnd {
			r.ahead = 0
			return
		}
	}
	r.ahead = r.prefetchBase + uintptr(r.prefetchedRows*r.aheadStride)
}

// microKernels holds the kernels of one panel width by number of rows; nil if there is none.
type microKernels [maxRows + 1]func(*reduce)

// kernelSet holds a tier's micro-kernels for one kind of term.
type kernelSet struct {
	byVectors []microKernels
	halves    []microKernels      // kernels whose last vector is half as wide, if there are any
	best      [][maxRows + 1]int8 // [vectors][rows left]: rows of the next call
	ahead     func(*reduce)       // 6 rows of a usual panel, prefetching; nil if there is none
	// tiles computes m rows and n columns with tiles, or does nothing and returns false; nil if the tier has no tiles.
	tiles func(t *tier, r *reduce, m, n int) bool
}

func newKernelSet(byVectors []microKernels) *kernelSet {
	s := &kernelSet{byVectors: byVectors, best: make([][maxRows + 1]int8, len(byVectors))}
	for v, kernels := range byVectors {
		for rows := 1; rows <= maxRows; rows++ {
			s.best[v][rows] = s.best[v][rows-1]
			if kernels[rows] != nil {
				s.best[v][rows] = int8(rows)
			}
		}
	}
	return s
}

// multiply computes r for m rows and n columns with the tier's kernels for terms of kind d. It changes r during the call and
// restores it at the end.
func (t *tier) multiply(r *reduce, d dot, m, n int) {
	set := t.kernels[d]
	if set.tiles != nil && set.tiles(t, r, m, n) {
		return
	}
	a, b, c, add := r.a, r.b, r.c, r.add
	for j := 0; j < n; {
		width := t.panel(n - j)
		kernels, best := &set.byVectors[width/t.lanes], &set.best[width/t.lanes]
		if v := width / t.lanes; v < len(set.halves) && set.halves[v][1] != nil && n-j <= width-t.lanes/2 {
			kernels = &set.halves[v]
		}
		r.b = unsafe.Add(b, j*r.blocks*r.k*4)
		for i := 0; i < m; { // pointers must never leave their memory: the garbage collector checks them
			rows := int(best[min(m-i, maxRows)])
			r.a, r.c, r.add = unsafe.Add(a, i*r.lda), unsafe.Add(c, i*r.ldc+j*4), add
			if r.ahead != 0 && rows == aheadRows && width == t.usualWidth && set.ahead != nil {
				set.ahead(r)
				r.advancePrefetch()
			} else {
				kernels[rows](r)
			}
			i += rows
		}
		j += width
	}
	r.a, r.b, r.c, r.add = a, b, c, add
}

// reduceGo3 is the portable micro-kernel: 3 rows, 2 columns. Products are rounded by an explicit conversion, so that a compiler
// that may fuse multiply and add gives the same bits. The compiler can keep two terms per iteration and six sums in registers;
// a fourth row would halve the speed.
func reduceGo3(r *reduce) {
	var c00, c01, c10, c11, c20, c21 float32
	for i := range r.blocks {
		a0, a1, a2 := r.row(i, 0), r.row(i, 1), r.row(i, 2)
		b := unsafe.Add(r.b, i*r.k*8)
		k := 0
		for ; k+2 <= r.k; k += 2 { // pointers to arrays avoid bounds checks, which take as long as the arithmetic
			p0, p1 := (*[2]float32)(unsafe.Add(a0, k*4)), (*[2]float32)(unsafe.Add(a1, k*4))
			p2, q := (*[2]float32)(unsafe.Add(a2, k*4)), (*[4]float32)(unsafe.Add(b, k*8))
			c00 += float32(p0[0] * q[0])
			c01 += float32(p0[0] * q[1])
			c10 += float32(p1[0] * q[0])
			c11 += float32(p1[0] * q[1])
			c20 += float32(p2[0] * q[0])
			c21 += float32(p2[0] * q[1])
			c00 += float32(p0[1] * q[2])
			c01 += float32(p0[1] * q[3])
			c10 += float32(p1[1] * q[2])
			c11 += float32(p1[1] * q[3])
			c20 += float32(p2[1] * q[2])
			c21 += float32(p2[1] * q[3])
		}
		if k < r.k {
			p0, p1 := *(*float32)(unsafe.Add(a0, k*4)), *(*float32)(unsafe.Add(a1, k*4))
			p2, q := *(*float32)(unsafe.Add(a2, k*4)), (*[2]float32)(unsafe.Add(b, k*8))
			c00, c01 = c00+float32(p0*q[0]), c01+float32(p0*q[1])
			c10, c11 = c10+float32(p1*q[0]), c11+float32(p1*q[1])
			c20, c21 = c20+float32(p2*q[0]), c21+float32(p2*q[1])
		}
	}
	r.store(0, c00, c01)
	r.store(1, c10, c11)
	r.store(2, c20, c21)
}

// reduceGo1 is reduceGo3 for one row.
func reduceGo1(r *reduce) {
	var c0, c1 float32
	for i := range r.blocks {
		a := unsafe.Slice((*float32)(r.row(i, 0)), r.k)
		b := unsafe.Slice((*[2]float32)(unsafe.Add(r.b, i*r.k*8)), r.k)
		b = b[:len(a)]
		for k, x := range a {
			c0 += float32(x * b[k][0])
			c1 += float32(x * b[k][1])
		}
	}
	r.store(0, c0, c1)
}

// row returns the address of a row of block i.
func (r *reduce) row(i, row int) unsafe.Pointer {
	return unsafe.Add(r.a, int(*(*int64)(unsafe.Add(r.offs, i*8)))+row*r.lda)
}

// store stores or adds a row of sums.
func (r *reduce) store(row int, x, y float32) {
	c := (*[2]float32)(unsafe.Add(r.c, row*r.ldc))
	if r.add != 0 {
		x, y = c[0]+x, c[1]+y
	}
	c[0], c[1] = x, y
}
