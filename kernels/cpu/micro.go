package cpu

// Sizes of the blocks a product is cut into. blockK is part of the order of additions and therefore of
// the class "cpu/go"; the others only choose what is computed when.
const (
	blockM = 64  // rows of a tile
	blockN = 128 // columns of a tile
	blockK = 256 // terms summed one after the other before they are added to the block before

	microM = 4 // rows of the micro-kernel
	microN = 2 // its columns
	unroll = 4 // terms in one turn of its loop
)

// quadA holds unroll terms of microM rows, term by term; quadB the same of microN columns. Terms beyond
// the last are zero on both sides, and adding +0 changes no sum that began at +0.
type (
	quadA [unroll * microM]float32
	quadB [unroll * microN]float32
)

// panels is a worker's copy of the part of both operands it works on, and the tile of results.
type panels struct {
	a   []quadA   // blockM/microM groups of up to blockK/unroll quads
	b   []quadB   // blockN/microN groups
	sum []float32 // blockM x blockN
	row []float32 // one row of an operand on its way to a panel, or of the result
}

func (p *panels) init() {
	if p.a == nil {
		p.a = make([]quadA, blockM/microM*blockK/unroll)
		p.b = make([]quadB, blockN/microN*blockK/unroll)
		p.sum = make([]float32, blockM*blockN)
		p.row = make([]float32, blockK)
	}
}

// packA puts the terms of a row at place i (0 to microM-1) of the group.
func packA(group []quadA, i int, row []float32) {
	for q := range group {
		g := &group[q]
		var t [unroll]float32
		if len(row) >= unroll {
			t = [unroll]float32(row)
			row = row[unroll:]
		} else {
			copy(t[:], row) // the last quad
		}
		g[i], g[microM+i], g[2*microM+i], g[3*microM+i] = t[0], t[1], t[2], t[3]
	}
}

// packB puts the terms of a column at place j (0 to microN-1) of the group.
func packB(group []quadB, j int, row []float32) {
	for q := range group {
		g := &group[q]
		var t [unroll]float32
		if len(row) >= unroll {
			t = [unroll]float32(row)
			row = row[unroll:]
		} else {
			copy(t[:], row) // the last quad
		}
		g[j], g[microN+j], g[2*microN+j], g[3*microN+j] = t[0], t[1], t[2], t[3]
	}
}

// micro returns the sums of products of 4 rows and 2 columns, each sum in the order of the terms. It is
// where nearly all time goes: eight independent sums keep the adder busy, and operands that lie side by
// side in the order they are used keep the loop free of bounds checks and spare registers.
func micro(a []quadA, b []quadB) (c00, c01, c10, c11, c20, c21, c30, c31 float32) {
	b = b[:len(a)]
	for k := range a {
		p, q := &a[k], &b[k]
		x, y := q[0], q[1]
		c00 += float32(p[0] * x)
		c01 += float32(p[0] * y)
		c10 += float32(p[1] * x)
		c11 += float32(p[1] * y)
		c20 += float32(p[2] * x)
		c21 += float32(p[2] * y)
		c30 += float32(p[3] * x)
		c31 += float32(p[3] * y)
		x, y = q[2], q[3]
		c00 += float32(p[4] * x)
		c01 += float32(p[4] * y)
		c10 += float32(p[5] * x)
		c11 += float32(p[5] * y)
		c20 += float32(p[6] * x)
		c21 += float32(p[6] * y)
		c30 += float32(p[7] * x)
		c31 += float32(p[7] * y)
		x, y = q[4], q[5]
		c00 += float32(p[8] * x)
		c01 += float32(p[8] * y)
		c10 += float32(p[9] * x)
		c11 += float32(p[9] * y)
		c20 += float32(p[10] * x)
		c21 += float32(p[10] * y)
		c30 += float32(p[11] * x)
		c31 += float32(p[11] * y)
		x, y = q[6], q[7]
		c00 += float32(p[12] * x)
		c01 += float32(p[12] * y)
		c10 += float32(p[13] * x)
		c11 += float32(p[13] * y)
		c20 += float32(p[14] * x)
		c21 += float32(p[14] * y)
		c30 += float32(p[15] * x)
		c31 += float32(p[15] * y)
	}
	return
}
