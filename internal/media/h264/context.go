package h264

// lumaIndex returns the coding-order index of the luma block at (x, y), in blocks (clause 6.4.13.1).
func lumaIndex(x, y int) int { return y>>1<<3 | x>>1<<2 | y&1<<1 | x&1 }

// lumaContext returns nC of luma block b (clause 9.2.1): the mean of the counts to the left and above.
func (e *encoder) lumaContext(x, y, b int) int {
	m := &e.mbs[y*e.mbWidth+x]
	bx, by := blockX[b], blockY[b]
	left, top := -1, -1
	if bx > 0 {
		left = int(m.lumaCount[lumaIndex(bx-1, by)])
	} else if n := e.neighbour(x-1, y); n != nil {
		left = int(n.lumaCount[lumaIndex(3, by)])
	}
	if by > 0 {
		top = int(m.lumaCount[lumaIndex(bx, by-1)])
	} else if n := e.neighbour(x, y-1); n != nil {
		top = int(n.lumaCount[lumaIndex(bx, 3)])
	}
	return meanCount(left, top)
}

// chromaContext returns nC of AC block b of chroma plane k.
func (e *encoder) chromaContext(x, y, k, b int) int {
	m := &e.mbs[y*e.mbWidth+x]
	bx, by := b&1, b>>1
	left, top := -1, -1
	if bx > 0 {
		left = int(m.chromaCount[k][2*by])
	} else if n := e.neighbour(x-1, y); n != nil {
		left = int(n.chromaCount[k][2*by+1])
	}
	if by > 0 {
		top = int(m.chromaCount[k][bx])
	} else if n := e.neighbour(x, y-1); n != nil {
		top = int(n.chromaCount[k][2+bx])
	}
	return meanCount(left, top)
}

// meanCount returns the mean of two counts, or the available one if the other is -1 (not available).
func meanCount(left, top int) int {
	if left >= 0 && top >= 0 {
		return (left + top + 1) >> 1
	}
	return max(left, 0) + max(top, 0)
}
