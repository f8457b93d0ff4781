package cpu

import "unsafe"

// Attention scores of 8-bit numbers (kernels.AttentionSpec.Int8). First the mean of a head's keys is subtracted from each key. This
// changes all scores of a query by the same number, so it changes no weight. Then every query and every key has its own scale,
// like rows of products, and a score is ((sum * scale of the key) * scale of the query) in fp32. The rest is the usual
// attention.

// int8Scores is a worker's memory for the rounded keys of one head and a block of rounded queries.
type int8Scores struct {
	terms, lda int
	less       []int32   // by key, see int8Product.columns
	scales     []float32 // by key
	factors    [queryBlock]float32
	mean, row  []float32
	numbers    scratch // a rounded key
}

// packInt8 rounds and packs keys block by block. Keys are always summed in index order, whichever worker does it.
func (a *attention) packInt8(s *attentionScratch, k rows, keys int) {
	set, n := a.int8, &s.int8
	n.terms = (a.d + set.numbersPerTerm - 1) / set.numbersPerTerm
	n.lda = padRow((n.terms*4 + lineSize - 1) / lineSize * lineSize)
	mean, row := growList(&n.mean, a.d), growList(&n.row, a.d)
	clear(mean)
	for i := range keys {
		a.tier.row.add(mean, mean, k.read(row, k.offset(i), k.step, a.d))
	}
	for i := range mean {
		mean[i] = -(mean[i] / float32(keys))
	}
	numbers := unsafe.Slice((*int8)(n.numbers.acquire(n.lda)), n.lda)
	packed := set.padded(keys) * n.terms * set.numbersPerTerm
	all := unsafe.Slice((*int8)(s.keys.acquire(packed)), packed)
	less, scales := growList(&n.less, keys), growList(&n.scales, keys)
	for k0 := 0; k0 < keys; k0 += keyBlock {
		count := min(keyBlock, keys-k0)
		width := set.padded(count)
		for j := range width {
			panel := j / set.maxWidth * set.maxWidth
			wide := min(set.maxWidth, width-panel)
			out := all[(k0+panel)*n.terms*set.numbersPerTerm:][:wide*n.terms*set.numbersPerTerm]
			if j >= count {
				for t := range n.terms {
					clear(out[(t*wide+j-panel)*set.numbersPerTerm:][:set.numbersPerTerm])
				}
				continue
			}
			a.tier.row.add(row, k.read(row, k.offset(k0+j), k.step, a.d), mean)
			scale, factor := scaleOf(set.largest(row))
			set.quantize(unsafe.Pointer(&numbers[0]), row, factor)
			sum := set.interleave(out, j-panel, wide, n.terms, a.d, numbers)
			less[k0+j], scales[k0+j] = sum*int32(set.offset), scale
		}
	}
}

// roundQueries rounds m queries from q0 on.
func (a *attention) roundQueries(s *attentionScratch, q0, m int) {
	n := &s.int8
	s.queries.acquire(m * n.lda)
	for i := range m {
		x := s.q.read(growList(&n.row, a.d), s.q.offset(q0+i), s.q.step, a.d)
		scale, factor := scaleOf(a.int8.largest(x))
		n.factors[i] = scale
		a.int8.quantize(s.queries.at(i*n.lda), x, factor)
	}
}

// scoreInt8 computes the scores of m rounded queries and of count keys from k0 on.
func (a *attention) scoreInt8(s *attentionScratch, m, k0, count int) {
	set, n := a.int8, &s.int8
	width := set.padded(count)
	s.reduce = reduce{ldc: s.soft.stride, lda: n.lda, blocks: 1, offs: unsafe.Pointer(&noOffset), k: n.terms}
	set.multiply(&s.reduce, s.queries.at(0), s.keys.at(k0*n.terms*set.numbersPerTerm), s.scores.at(0), m, columns{0, width, width, n.terms, 0})
	for i := range m {
		row := s.scores.at(i * s.soft.stride)
		sums := unsafe.Slice((*int32)(row), count)
		set.restore(unsafe.Slice((*float32)(row), count), sums, n.less[k0:k0+count], n.scales[k0:k0+count], n.factors[i])
	}
}
