package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

const (
	// keyBlock is the number of keys in a block: the weights of a block are added in one chain, and blocks are added in index
	// order. It is part of the order of additions.
	keyBlock = 512
	// queryBlock is the number of queries that share a pass over the keys: it is a multiple of 5, 6 and 12 rows.
	queryBlock = 60
)

// packHead packs keys and values block by block.
func (a *attention) packHead(s *attentionScratch, k, v rows, keys int) {
	depth := a.dot.terms(a.d)
	if a.int8 != nil {
		a.packInt8(s, k, keys)
	} else {
		s.keys.acquire(a.tier.packedSize(keys, depth))
	}
	s.values.acquire(a.tier.packedSize(a.d, a.dot.terms(keys)))
	kp, kStride := k.dense(&s.stagedK, keys)
	vp, vStride := v.dense(&s.stagedV, keys)
	for k0 := 0; k0 < keys; k0 += keyBlock {
		n := min(keyBlock, keys-k0)
		if a.int8 == nil {
			a.tier.packNK(packing{dst: s.keys.at(k0 * depth * 4), depth: depth, dot: a.dot,
				src: unsafe.Add(kp, k0*kStride), stride: kStride, dtype: a.k.DType}, n, a.d)
		}
		a.tier.packKN(packing{dst: s.values.at(a.valuesAt(k0)), depth: a.dot.terms(n), dot: a.dot,
			src: unsafe.Add(vp, k0*vStride), stride: vStride, dtype: a.v.DType}, a.d, n)
	}
}

// valuesAt returns the offset of the packed values of the block that starts at key k0.
func (a *attention) valuesAt(k0 int) int { return a.tier.padded(a.d) * a.dot.terms(k0) * 4 }

// block computes m queries from q0 on. For one block of keys after the other it computes the scores, their weights and the sums
// of the values. When a later block has a larger score, the earlier sums are scaled down.
func (a *attention) block(s *attentionScratch, head, q0, m, keys int) {
	var qp unsafe.Pointer
	var qStride int
	if a.int8 != nil {
		a.roundQueries(s, q0, m)
	} else {
		qp, qStride = a.terms(&s.queries, &s.q, q0, m)
	}
	depth := a.dot.terms(a.d)
	s.reset(a, m, keys)
	for k0 := 0; k0 < keys; k0 += keyBlock {
		n := min(keyBlock, keys-k0)
		if a.int8 != nil {
			a.scoreInt8(s, m, k0, n)
		} else {
			s.reduce = reduce{c: s.scores.at(0), ldc: s.soft.stride, blocks: 1, offs: unsafe.Pointer(&s.zero),
				a: qp, lda: qStride, b: s.keys.at(k0 * depth * 4), k: depth}
			a.tier.multiply(&s.reduce, a.dot, m, n)
		}
		a.addBias(s, head, q0, m, k0, n)
		s.soft.keys = n
		a.tier.attend.softmax[a.dot](&s.soft)
		if k0 > 0 {
			sums, stride := s.sums.at(0), s.sumStride
			a.tier.attend.scaleRows[dotF32](sums, sums, stride, stride, s.soft.rescale, m, a.d)
		}
		s.reduce = reduce{c: s.sums.at(0), ldc: s.sumStride, blocks: 1, offs: unsafe.Pointer(&s.zero),
			a: s.soft.weights, lda: s.soft.weightStride, b: s.values.at(a.valuesAt(k0)),
			k: a.dot.terms(n), add: min(k0, 1)}
		a.tier.multiply(&s.reduce, a.dot, m, a.d)
	}
	for i := range m {
		s.rescale[i] = 1 / s.sum[i]
	}
	a.finish(s, q0, m)
}

// finish divides the sums of m queries by the sums of their weights and stores them as rows from q0 on: directly if the tier's
// routines can, else through scratch.
func (a *attention) finish(s *attentionScratch, q0, m int) {
	half := a.dot != dotF32 && s.dst.DType == kernels.BF16
	kind, size := dotF32, 4
	if half {
		kind, size = dotBF16, 2
	}
	direct := s.dst.step == 1 && s.dst.DType.Size() == size
	to, stride := unsafe.Pointer(nil), a.d*size
	if direct {
		to, stride = s.dst.pointer(s.dst.offset(q0)), s.dst.jump*size
	} else {
		to = s.finished.acquire(m * stride)
	}
	a.tier.attend.scaleRows[kind](to, s.sums.at(0), stride, s.sumStride, s.soft.rescale, m, a.d)
	if !direct {
		s.scatter(to, stride, q0, m, a.d, half)
	}
}

// prescaled reports whether the scores are scaled before the softmax: because a bias is added after scaling, or because the
// scale is not positive, so the largest score would not stay the largest.
func (a *attention) prescaled() bool { return a.bias != nil || !(a.spec.Scale > 0) }

// addBias scales the scores and adds the bias, if prescaled.
func (a *attention) addBias(s *attentionScratch, head, q0, m, k0, n int) {
	if !a.prescaled() {
		return
	}
	for i := range m {
		row := unsafe.Slice((*float32)(s.scores.at(i*s.soft.stride)), n)
		a.tier.row.standard(row, row, 0, a.spec.Scale)
		if a.bias != nil {
			strides := a.bias.Strides
			off := a.bias.Offset + head*strides[0] + (q0+i)*strides[1] + k0*strides[2]
			a.tier.row.add(row, row, a.bias.read(growList(&s.row, n), off, strides[2], n))
		}
	}
}

// terms returns m rows of r, from the given one on, in the form that the micro-kernels read, and the distance between rows in
// bytes. It returns r's own memory if possible, else a copy.
func (a *attention) terms(copied *scratch, r *rows, from, m int) (unsafe.Pointer, int) {
	want := kernels.F32
	if a.dot == dotBF16 {
		want = kernels.BF16
	}
	stride := r.jump * want.Size()
	whole := a.d%a.dot.multiple() == 0
	if r.DType == want && r.step == 1 && whole && stride%strideTrap != 0 {
		return r.pointer(r.offset(from)), stride
	}
	stride = (a.dot.terms(a.d)*4 + lineSize - 1) / lineSize * lineSize
	if stride%strideTrap == 0 {
		stride += lineSize
	}
	copied.acquire(m * stride)
	if r.DType == want && r.step == 1 {
		size := want.Size()
		a.tier.attend.copyRows(copied.at(0), r.pointer(r.offset(from)), stride, r.jump*size, m, a.d*size)
		return copied.at(0), stride
	}
	for i := range m {
		row := unsafe.Slice((*float32)(copied.at(i*stride)), a.dot.terms(a.d))
		if a.dot != dotBF16 {
			r.load(row[:a.d], r.offset(from+i), r.step)
			clear(row[a.d:])
			continue
		}
		row[len(row)-1] = 0 // an odd last element forms a pair with a zero
		r.copyHalf(unsafe.Slice((*uint16)(copied.at(i*stride)), a.d), r.offset(from+i))
	}
	return copied.at(0), stride
}
