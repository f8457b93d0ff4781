package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// shortKeys is the greatest number of keys for which attention uses the short algorithm, as over the frames of a video: all
// data of 16 queries stays in the L1 cache, and keys, queries and values are read in place.
const shortKeys = 32

// shortQueries is the number of queries that the short algorithm computes together: the lanes of a vector.
const shortQueries = 16

// shortRoutines holds a tier's routines for the short algorithm.
type shortRoutines struct {
	// weights turns scores, a row of 16 queries per key, into weights that add up to 1: rows of fp32, or rows of pairs of keys.
	// scale is positive. It overwrites the scores and may write up to three more rows.
	weights [dots]func(weights, scores unsafe.Pointer, keys int, scale float32)
	// values and halves add up weighted values, by the number of vectors of columns. values stores fp32, halves stores bf16.
	values [dots][]func(*shortValues)
	halves []func(*shortValues)
	// prefetch prefetches rows that will be needed soon.
	prefetch func(src unsafe.Pointer, stride, rows, bytes int)
}

// shortValues adds up the weighted values of up to 16 queries and stores the sums.
//
// The generated assembly depends on the order of the fields.
type shortValues struct {
	dst         unsafe.Pointer // fp32 or bf16
	dstStride   int            // bytes from query to query
	weights     unsafe.Pointer // rows of 16 dwords, one per term
	values      unsafe.Pointer
	valueStride int // bytes from term to term
	terms       int
	queries     int
	columns     int
}

// runShort computes queries q0 to q1 of a head with few keys.
func (a *attention) runShort(s *attentionScratch, k, v rows, head, q0, q1, keys int) {
	if head+1 < a.h { // prefetch the next head: its rows are too many for the processor's own prefetcher
		a.prefetch(&s.q, q0, q1)
		a.prefetch(&k, 0, keys)
		a.prefetch(&v, 0, keys)
	}
	depth := a.dot.terms(a.d)
	kp, kStride := a.terms(&s.keys, &k, 0, keys)
	vp, vStride := a.shortValueRows(s, v, keys)
	qp, qStride := s.q.dense(&s.stagedQ, q1)
	s.queries.acquire(depth * shortQueries * 4)
	s.scores.acquire((shortKeys + 3) * shortQueries * 4)
	s.weights.acquire((shortKeys + 3) * shortQueries * 4)
	for i := q0; i < q1; i += shortQueries {
		m := min(shortQueries, q1-i)
		a.tier.packNK(packing{dst: s.queries.at(0), depth: depth, dot: a.dot,
			src: unsafe.Add(qp, i*qStride), stride: qStride, dtype: a.q.DType}, m, a.d)
		s.reduce = reduce{c: s.scores.at(0), ldc: shortQueries * 4, blocks: 1, offs: unsafe.Pointer(&s.zero),
			a: kp, lda: kStride, b: s.queries.at(0), k: depth}
		a.tier.multiply(&s.reduce, a.dot, keys, shortQueries)
		a.tier.attend.short.weights[a.dot](s.weights.at(0), s.scores.at(0), keys, a.spec.Scale*a.tier.attend.softmaxUnit)
		s.shortValues = shortValues{weights: s.weights.at(0), values: vp, valueStride: vStride,
			terms: a.dot.terms(keys), queries: m}
		a.storeShort(s, i, m)
	}
}

// shortValueRows returns the values as rows of terms, and their distance in bytes. It returns the memory itself if the values
// are fp32, else a packed copy, panel by panel of columns.
func (a *attention) shortValueRows(s *attentionScratch, v rows, keys int) (unsafe.Pointer, int) {
	if a.dot == dotF32 && v.DType == kernels.F32 {
		return a.terms(&s.values, &v, 0, keys)
	}
	terms := a.dot.terms(keys)
	dst := s.values.acquire(a.tier.packedSize(a.d, terms))
	src, stride := v.dense(&s.stagedV, keys)
	a.tier.packKN(packing{dst: dst, depth: terms, dot: a.dot, src: src, stride: stride, dtype: v.DType}, a.d, keys)
	return dst, 0
}

// prefetch prefetches rows of the next head.
func (a *attention) prefetch(r *rows, from, to int) {
	if size := r.DType.Size(); r.step == 1 {
		step := r.Strides[len(r.Strides)-2] * size
		a.tier.attend.short.prefetch(unsafe.Add(r.pointer(r.offset(from)), step), r.jump*size, to-from, a.d*size)
	}
}

// storeShort computes the values of m queries panel by panel and stores them as rows from q0 on: directly if the routines can,
// else through scratch.
func (a *attention) storeShort(s *attentionScratch, q0, m int) {
	p := &s.shortValues
	routines, size := a.tier.attend.short.values[a.dot], 4
	if a.dot != dotF32 && s.dst.DType == kernels.BF16 {
		routines, size = a.tier.attend.short.halves, 2
	}
	direct := s.dst.step == 1 && s.dst.DType.Size() == size
	to, stride := unsafe.Pointer(nil), a.d*size
	if direct {
		to, stride = s.dst.pointer(s.dst.offset(q0)), s.dst.jump*size
	} else {
		to = s.finished.acquire(m * stride)
	}
	from, packed := p.values, p.valueStride == 0
	for j := 0; j < a.d; {
		width := a.tier.panel(a.d - j)
		p.dst, p.dstStride, p.columns = unsafe.Add(to, j*size), stride, min(width, a.d-j)
		if packed {
			p.values, p.valueStride = unsafe.Add(from, j*p.terms*4), width*4
		} else {
			p.values = unsafe.Add(from, j*4)
		}
		routines[width/a.tier.lanes](p)
		j += width
	}
	if !direct {
		s.scatter(to, stride, q0, m, a.d, size == 2)
	}
}
