package lora

// Delta is the list of additions to a tensor, in order. A tensor with more than two axes is treated as a matrix: the first
// axis, and all others together.
type Delta []addition

// addition is what one adapter adds.
type addition struct {
	factor   float32
	down, up *tensor // A (rank, columns) and B (rows, rank)
	rank     int
	columns  int
	diff     *tensor // instead of down and up
}

// Add adds to dst, which holds elements of a row starting at a column.
func (d Delta) Add(dst []float32, row, column int) {
	var room [chunk]float32
	for _, p := range d {
		for at := 0; at < len(dst); at += chunk {
			part := dst[at:min(at+chunk, len(dst))]
			p.add(part, room[:len(part)], row, column+at)
		}
	}
}

// chunk is the number of elements that are summed at a time, so that they stay in the first-level cache.
const chunk = 1024

// add adds to dst, at most chunk elements of a row. sum is scratch space of the same length.
func (p addition) add(dst, sum []float32, row, column int) {
	if p.diff != nil {
		for i := range dst {
			dst[i] += float32(p.factor * p.diff.dt.At(p.diff.data, row*p.columns+column+i))
		}
		return
	}
	a, b := p.down.blocks(p.rank, p.columns), p.up.floats()[row*p.rank:][:p.rank]
	for at := 0; at < len(sum); {
		block, within := (column+at)/blockColumns, (column+at)%blockColumns
		width := min(blockColumns, p.columns-block*blockColumns)
		n := min(width-within, len(sum)-at)
		sums(sum[at:at+n], a[block*blockColumns*p.rank+within:], b, width)
		at += n
	}
	for i, s := range sum {
		dst[i] += float32(p.factor * s)
	}
}
