package lora

// Delta is what is added to a tensor, in this order. A tensor of more than two axes counts as one of two: the first, and
// all others.
type Delta []part

// part is what one adapter adds.
type part struct {
	factor   float32
	down, up *tensor // A (rank, columns) and B (rows, rank)
	rank     int
	columns  int
	diff     *tensor // in place of them
}

// Add adds to dst, the elements of a row from a column on.
func (d Delta) Add(dst []float32, row, column int) {
	var room [chunk]float32
	for _, p := range d {
		for at := 0; at < len(dst); at += chunk {
			part := dst[at:min(at+chunk, len(dst))]
			p.add(part, room[:len(part)], row, column+at)
		}
	}
}

// chunk is how many elements are summed at a time, so that they stay in the first cache.
const chunk = 1024

// add adds to dst, at most chunk elements of a row; sum is room for as many.
func (p part) add(dst, sum []float32, row, column int) {
	if p.diff != nil {
		for i := range dst {
			dst[i] += float32(p.factor * p.diff.at(row*p.columns+column+i))
		}
		return
	}
	a, b := p.down.floats(), p.up.floats()[row*p.rank:][:p.rank]
	clear(sum)
	k := 0
	for ; k+4 <= p.rank; k += 4 { // one after the other: the sum is that of single steps
		b0, b1, b2, b3 := b[k], b[k+1], b[k+2], b[k+3]
		a0 := a[k*p.columns+column:][:len(sum)]
		a1 := a[(k+1)*p.columns+column:][:len(sum)]
		a2 := a[(k+2)*p.columns+column:][:len(sum)]
		a3 := a[(k+3)*p.columns+column:][:len(sum)]
		for i, s := range sum {
			s += float32(b0 * a0[i])
			s += float32(b1 * a1[i])
			s += float32(b2 * a2[i])
			s += float32(b3 * a3[i])
			sum[i] = s
		}
	}
	for ; k < p.rank; k++ {
		ak, bk := a[k*p.columns+column:][:len(sum)], b[k]
		for i := range sum {
			sum[i] += float32(bk * ak[i])
		}
	}
	for i, s := range sum {
		dst[i] += float32(p.factor * s)
	}
}
