package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// attentionScratch is a worker's memory for one head at a time.
type attentionScratch struct {
	dst, q                    rows
	keys, values              scratch // packed, block by block
	queries                   scratch // a block of queries, if they must be copied
	scores, weights           scratch // (queryBlock, keyBlock) of one block of keys
	sums                      scratch // (queryBlock, D padded), fp32
	sumStride                 int     // bytes
	finished                  scratch // rows that cannot be stored directly
	stagedQ, stagedK, stagedV scratch // dense copies of operands whose elements are not contiguous
	row                       []float32
	top, sum, rescale         [queryBlock]float32
	reduce                    reduce
	shortValues               shortValues
	soft                      softmax
	zero                      int64
	int8                      int8Scores
}

// reset prepares the sums of m queries over the given number of keys.
func (s *attentionScratch) reset(a *attention, m, keys int) {
	width := (min(keys, keyBlock) + keyTurn - 1) / keyTurn * keyTurn
	s.sumStride = a.tier.padded(a.d)*4 + lineSize
	s.sums.acquire(m * s.sumStride)
	s.soft = softmax{stride: width*4 + lineSize, rows: m, top: unsafe.Pointer(&s.top),
		sum: unsafe.Pointer(&s.sum), rescale: unsafe.Pointer(&s.rescale), scale: a.spec.Scale * a.tier.attend.softmaxUnit}
	if a.prescaled() {
		s.soft.scale = a.tier.attend.softmaxUnit
	}
	s.scores.acquire(m * s.soft.stride)
	s.soft.scores, s.soft.weights, s.soft.weightStride = s.scores.at(0), s.scores.at(0), s.soft.stride
	if a.dot == dotBF16 {
		s.soft.weightStride = width*2 + lineSize
		s.weights.acquire(m * s.soft.weightStride)
		s.soft.weights = s.weights.at(0)
	}
	for i := range m {
		s.top[i], s.sum[i] = lowestScore, 0
	}
}

// scatter stores m finished rows of n elements (bf16 if half, else fp32) as rows from q0 on.
func (s *attentionScratch) scatter(from unsafe.Pointer, stride, q0, m, n int, half bool) {
	for i := range m {
		row, off := unsafe.Add(from, i*stride), s.dst.offset(q0+i)
		if !half {
			s.dst.store(unsafe.Slice((*float32)(row), n), off, s.dst.step)
			continue
		}
		for _, x := range unsafe.Slice((*uint16)(row), n) {
			s.dst.buf.u16[off] = x
			off += s.dst.step
		}
	}
}

// at returns the address at offset off of the memory acquired last.
func (s *scratch) at(off int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.lines)), off)
}

// dense returns the first n rows with contiguous elements, and the distance from row to row in bytes. It returns r's own memory
// if its elements are contiguous, else a copy.
func (r *rows) dense(staged *scratch, n int) (unsafe.Pointer, int) {
	size := r.DType.Size()
	if r.step == 1 {
		return r.pointer(r.start), r.jump * size
	}
	staged.acquire(n * r.n * size)
	for i := range n {
		row := staged.at(i * r.n * size)
		if r.DType == kernels.F32 {
			r.load(unsafe.Slice((*float32)(row), r.n), r.offset(i), r.step)
		} else {
			r.copyHalf(unsafe.Slice((*uint16)(row), r.n), r.offset(i))
		}
	}
	return staged.at(0), r.n * size
}

// copyHalf copies the 16-bit elements of the row at off without conversion.
func (r *rows) copyHalf(dst []uint16, off int) {
	for i := range dst {
		dst[i] = r.buf.u16[off]
		off += r.step
	}
}
