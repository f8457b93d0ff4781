package h264

// The 16 luma blocks in coding order (figure 6-10): block index to position in blocks.
var (
	blockX = [16]int{0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3}
	blockY = [16]int{0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3}
)

// levels are the quantised coefficients of one macroblock in scan order.
type levels struct {
	luma     [16][16]int16
	lumaDC   [16]int16 // Intra_16x16 only; luma[b][0] is then unused
	chroma   [2][4][16]int16
	chromaDC [2][4]int16
}

// codeInterLuma quantises luma against e.pred, reconstructs, and returns the luma part of
// coded_block_pattern: one bit for each 8x8.
func (e *encoder) codeInterLuma(x, y int, m *macroblock) int {
	src, rec := e.src[0], e.rec[0]
	deadzone := e.luma.deadzone(6)
	pattern := 0
	for b := range e.lv.luma {
		px, py := 4*blockX[b], 4*blockY[b]
		pred := e.pred[py*16+px:]
		var d block
		d.subtract(src.pix[src.at(16*x+px, 16*y+py):], src.stride, pred, 16)
		d.forward()
		m.lumaCount[b] = e.luma.quantise(&d, &e.lv.luma[b], 0, deadzone)
		if m.lumaCount[b] > 0 {
			pattern |= 1 << (b >> 2)
			d.inverse()
		}
		d.addTo(rec.pix[rec.at(16*x+px, 16*y+py):], rec.stride, pred, 16)
	}
	return pattern
}

// codeIntraLuma does the same for Intra_16x16, whose DC coefficients are transformed once more. It
// reports whether any AC level is not zero.
func (e *encoder) codeIntraLuma(x, y int, m *macroblock) bool {
	src, rec := e.src[0], e.rec[0]
	deadzone := e.luma.deadzone(3)
	var dc block
	var coeffs [16]block
	anyAC := false
	for b := range coeffs {
		d := &coeffs[b]
		px, py := 4*blockX[b], 4*blockY[b]
		d.subtract(src.pix[src.at(16*x+px, 16*y+py):], src.stride, e.pred[py*16+px:], 16)
		d.forward()
		dc[py+blockX[b]] = d[0]
		m.lumaCount[b] = e.luma.quantise(d, &e.lv.luma[b], 1, deadzone)
		anyAC = anyAC || m.lumaCount[b] > 0
	}
	e.luma.quantiseDC(&dc, &e.lv.lumaDC, deadzone)
	for b := range coeffs {
		d := &coeffs[b]
		px, py := 4*blockX[b], 4*blockY[b]
		d[0] = dc[py+blockX[b]]
		d.inverse()
		d.addTo(rec.pix[rec.at(16*x+px, 16*y+py):], rec.stride, e.pred[py*16+px:], 16)
	}
	return anyAC
}

// codeChroma quantises both chroma planes against e.predC, reconstructs, and returns the chroma part of
// coded_block_pattern: 0 nothing, 1 DC only, 2 DC and AC (table 7-15).
func (e *encoder) codeChroma(x, y int, m *macroblock, divisor int32) int {
	pattern := 0
	for k := range e.predC {
		src, rec := e.src[k+1], e.rec[k+1]
		deadzone := e.chroma.deadzone(divisor)
		var dc [4]int32
		var coeffs [4]block
		for b := range coeffs {
			d := &coeffs[b]
			px, py := b&1*4, b>>1*4
			d.subtract(src.pix[src.at(8*x+px, 8*y+py):], src.stride, e.predC[k][py*8+px:], 8)
			d.forward()
			dc[b] = d[0]
			m.chromaCount[k][b] = e.chroma.quantise(d, &e.lv.chroma[k][b], 1, deadzone)
			if m.chromaCount[k][b] > 0 {
				pattern = 2
			}
		}
		dc = e.chroma.quantiseChromaDC(dc, &e.lv.chromaDC[k], deadzone)
		if e.lv.chromaDC[k] != [4]int16{} {
			pattern = max(pattern, 1)
		}
		for b := range coeffs {
			d := &coeffs[b]
			px, py := b&1*4, b>>1*4
			d[0] = dc[b]
			d.inverse()
			d.addTo(rec.pix[rec.at(8*x+px, 8*y+py):], rec.stride, e.predC[k][py*8+px:], 8)
		}
	}
	return pattern
}
