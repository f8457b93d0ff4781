package cpu

import (
	"sync"
	"unsafe"
)

// AMX computes with tiles, registers of 16 rows of 64 bytes. TDPBF16PS multiplies a tile of A, whose rows hold up to 16 terms,
// by a tile of B, which has a row of 16 columns for each of these terms, and adds the product to a tile of sums (Intel SDM
// volume 2).
const (
	tileRows     = 16
	tileTerms    = 16
	minTileTerms = 8 // least number of terms per tile: with fewer, the vector kernels are as fast
)

// tileConfig is the operand of LDTILECFG: palette 1, from byte 16 on the bytes per row of each tile, and from byte 48 on the
// number of its rows.
type tileConfig [64]byte

// tileConfigs holds the configurations of kernels with up to 16 or up to 32 rows, by terms and rows. Tiles 0 to 3 are sums: two
// for each row of tiles, or four if there is only one row. After them come the tiles of A, one for each row of tiles, and B.
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

// tileChunk returns the number of terms per tile for a block of k terms; all tiles of a block have the same number. 0 means
// that the block does not fit such tiles, and vector kernels compute it. The result depends on k alone, so the bits of a sum do
// too.
func tileChunk(k int) int {
	for n := (k + tileTerms - 1) / tileTerms; n > 0 && k/n >= minTileTerms; n++ {
		if k%n == 0 {
			return k / n
		}
	}
	return 0
}

// multiplyTiles is multiply with tiles. It reports whether the blocks of r fit into tiles. A sum is one chain of additions that
// starts with the value in C, whatever the blocks are.
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
