package cpu

import (
	"sync"
	"unsafe"
)

// Tiles of AMX: registers of 16 rows of 64 bytes. A product of a tile of A, whose rows hold up to 16 terms, and one of
// B, with a row of 16 columns for each of these terms, is added to a tile of sums (TDPBF16PS, Intel SDM volume 2).
const (
	tileRows   = 16
	tileTerms  = 16
	leastTerms = 8 // of a tile: with fewer the vector kernels are as fast
)

// tileConfig is what LDTILECFG reads: palette 1, the bytes of a row of each tile from byte 16 on, and its rows from
// byte 48 on.
type tileConfig [64]byte

// tileConfigs are those of kernels with up to 16 or up to 32 rows, by terms and rows. Tiles 0 to 3 are sums: two for each
// row of tiles, or four where there is one; then come A, a tile for each row of tiles, and B.
var tileConfigs = sync.OnceValue(func() *[tileTerms + 1][2*tileRows + 1]tileConfig {
	all := new([tileTerms + 1][2*tileRows + 1]tileConfig)
	for terms := 1; terms <= tileTerms; terms++ {
		for rows := 1; rows <= 2*tileRows; rows++ {
			all[terms][rows] = newTileConfig(terms, rows)
		}
	}
	return all
})

func newTileConfig(terms, rows int) (c tileConfig) {
	c[0] = 1
	set := func(tile, rows, bytes int) { c[16+2*tile], c[48+tile] = byte(bytes), byte(rows) }
	first, second := min(rows, tileRows), max(0, rows-tileRows)
	if second == 0 {
		for i := range 4 {
			set(i, first, 64)
		}
		set(4, first, 4*terms)
		for i := 5; i < 8; i++ {
			set(i, terms, 64)
		}
		return c
	}
	for i := range 2 {
		set(i, first, 64)
		set(2+i, second, 64)
		set(6+i, terms, 64)
	}
	set(4, first, 4*terms)
	set(5, second, 4*terms)
	return c
}

// tileChunk returns how many terms of a block of k a tile takes: all tiles of a block take as many. 0: the block does not
// go into such tiles, and vector kernels compute it. It depends on k alone, as the bits of a sum do.
func tileChunk(k int) int {
	for n := (k + tileTerms - 1) / tileTerms; n > 0 && k/n >= leastTerms; n++ {
		if k%n == 0 {
			return k / n
		}
	}
	return 0
}

// multiplyTiles is multiply by tiles, and reports whether blocks of r go into tiles. A sum is one chain from what is in C
// on, whatever its blocks are.
func multiplyTiles(t *tier, r *reduce, m, n int) bool {
	chunk := tileChunk(r.k)
	if chunk == 0 {
		return false
	}
	a, b, c := r.a, r.b, r.c
	for j := 0; j < n; {
		width := t.panel(n - j)
		for i := 0; i < m; i += 2 * tileRows {
			rows := min(m-i, 2*tileRows)
			down, across := 1, 4
			if rows > tileRows {
				down, across = 2, 2
			}
			for v := 0; v < width; {
				columns := min((width-v)/t.lanes, across)
				r.a, r.c = unsafe.Add(a, i*r.lda), unsafe.Add(c, i*r.ldc+(j+v)*4)
				r.b = unsafe.Add(b, (j*r.blocks*r.k+v)*4)
				tileKernels[down][columns](r, &tileConfigs()[chunk][rows], r.k/chunk, 4*chunk, 4*width)
				v += columns * t.lanes
			}
		}
		j += width
	}
	r.a, r.b, r.c = a, b, c
	return true
}
