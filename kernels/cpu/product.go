package cpu

// source gives the rows of one operand of a product. n is at most blockK; the slice is read before the
// next call and may be scratch or the operand's own memory.
type source interface {
	terms(scratch []float32, row, k0, n int) []float32
}

// terms makes every rows a source.
func (r *rows) terms(scratch []float32, row, k0, n int) []float32 {
	return r.read(scratch, r.offset(row)+k0*r.step, r.step, n)
}

// product is sum over k of a(i, k) b(j, k) for i < m and j < n: the one loop behind Linear, Conv and
// Attention.
type product struct {
	a, b    source
	m, n, k int
}

// tiles returns how many tiles there are along m and n.
func (p *product) tiles() (rows, cols int) {
	return (p.m + blockM - 1) / blockM, (p.n + blockN - 1) / blockN
}

// tile computes rows i0.. and columns j0.. into the worker's sums and returns the size of the tile.
// Row i of the tile begins at sum[i*blockN].
func (p *product) tile(w *worker, i0, j0 int) (m, n int) {
	w.panels.init()
	m, n = min(blockM, p.m-i0), min(blockN, p.n-j0)
	for i := range (m + microM - 1) / microM * microM {
		clear(w.panels.sum[i*blockN:][:(n+microN-1)/microN*microN])
	}
	for k0 := 0; k0 < p.k; k0 += blockK {
		p.addBlock(&w.panels, i0, j0, m, n, k0)
	}
	return m, n
}

// addBlock adds the products of terms k0 to k0+blockK to the sums.
func (p *product) addBlock(w *panels, i0, j0, m, n, k0 int) {
	k := min(blockK, p.k-k0)
	quads := (k + unroll - 1) / unroll
	for i := range m {
		g := i / microM * quads
		packA(w.a[g:g+quads], i%microM, p.a.terms(w.row, i0+i, k0, k))
	}
	for j := range n {
		g := j / microN * quads
		packB(w.b[g:g+quads], j%microN, p.b.terms(w.row, j0+j, k0, k))
	}
	// Places of the last groups that no row or column fills hold old numbers: their sums are never read.
	for i := 0; i < m; i += microM {
		a := w.a[i/microM*quads:][:quads]
		s0, s1 := w.sum[i*blockN:][:blockN], w.sum[(i+1)*blockN:][:blockN]
		s2, s3 := w.sum[(i+2)*blockN:][:blockN], w.sum[(i+3)*blockN:][:blockN]
		for j := 0; j < n; j += microN {
			c00, c01, c10, c11, c20, c21, c30, c31 := micro(a, w.b[j/microN*quads:][:quads])
			s0[j] += c00
			s0[j+1] += c01
			s1[j] += c10
			s1[j+1] += c11
			s2[j] += c20
			s2[j+1] += c21
			s3[j] += c30
			s3[j+1] += c31
		}
	}
}
