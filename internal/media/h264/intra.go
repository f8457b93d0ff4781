package h264

// Intra_16x16 prediction modes (table 8-4) and chroma prediction modes (table 8-5).
const (
	intraVertical   = 0
	intraHorizontal = 1
	intraDC         = 2
	intraPlane      = 3

	chromaModeDC         = 0
	chromaModeHorizontal = 1
	chromaModeVertical   = 2
)

// A predictor tries predictions of one macroblock and keeps the cheapest.
type predictor struct {
	src       []byte
	srcStride int
	lambda    int
	cost      int
	mode      int
	best      *[256]byte
}

func (p *predictor) try(mode int, pred *[256]byte) {
	cost := sad16(p.src, p.srcStride, pred[:], 16, p.cost) + p.lambda*ueLen(uint32(1+mode))
	if cost < p.cost {
		p.cost, p.mode = cost, mode
		*p.best = *pred
	}
}

// chooseIntra predicts macroblock (x, y) from its neighbours (clause 8.3.3) into e.cand and returns the
// cheapest mode and its cost.
func (e *encoder) chooseIntra(x, y int) (mode, cost int) {
	src, rec := e.src[0], e.rec[0]
	p := predictor{
		src: src.pix[src.at(16*x, 16*y):], srcStride: src.stride,
		lambda: e.lambda, cost: 1 << 30, best: &e.cand,
	}
	var pred [256]byte
	o := rec.at(16*x, 16*y)
	sum, sides := 0, 0
	if y > 0 {
		top := rec.pix[o-rec.stride:][:16]
		for i := 0; i < 16; i++ {
			copy(pred[i*16:], top)
			sum += int(top[i])
		}
		sides++
		p.try(intraVertical, &pred)
	}
	if x > 0 {
		for i := 0; i < 16; i++ {
			left := rec.pix[o+i*rec.stride-1]
			fill(pred[i*16:][:16], left)
			sum += int(left)
		}
		sides++
		p.try(intraHorizontal, &pred)
	}
	fill(pred[:], meanOfSides(sum, sides, 4))
	p.try(intraDC, &pred)
	if sides == 2 {
		predictPlane(rec, o, &pred)
		p.try(intraPlane, &pred)
	}
	return p.mode, p.cost
}

// meanOfSides rounds the mean of sides edges of 1<<log samples each; without a side it is mid-grey.
func meanOfSides(sum, sides, log int) byte {
	switch sides {
	case 0:
		return 128
	case 1:
		return byte((sum + 1<<log/2) >> log)
	default:
		return byte((sum + 1<<log) >> (log + 1))
	}
}

func fill(dst []byte, v byte) {
	for i := range dst {
		dst[i] = v
	}
}

// predictPlane predicts a macroblock by Intra_16x16_Plane (clause 8.3.3.4).
func predictPlane(rec *plane, o int, pred *[256]byte) {
	at := func(x, y int) int32 { return int32(rec.pix[o+y*rec.stride+x]) }
	h, v := int32(0), int32(0)
	for i := 0; i < 8; i++ {
		h += int32(i+1) * (at(8+i, -1) - at(6-i, -1))
		v += int32(i+1) * (at(-1, 8+i) - at(-1, 6-i))
	}
	b, c := (5*h+32)>>6, (5*v+32)>>6
	a := 16 * (at(-1, 15) + at(15, -1))
	for y := int32(0); y < 16; y++ {
		for x := int32(0); x < 16; x++ {
			pred[y*16+x] = clip8((a + b*(x-7) + c*(y-7) + 16) >> 5)
		}
	}
}

// chooseIntraChroma predicts both chroma blocks of macroblock (x, y) into e.predC and returns the mode.
func (e *encoder) chooseIntraChroma(x, y int) int {
	bestCost, bestMode := 1<<30, chromaModeDC
	var best [2][64]byte
	for mode := chromaModeDC; mode <= chromaModeVertical; mode++ {
		if mode == chromaModeHorizontal && x == 0 || mode == chromaModeVertical && y == 0 {
			continue
		}
		var pred [2][64]byte
		cost := e.lambda * ueLen(uint32(mode))
		for k := range pred {
			src, rec := e.src[k+1], e.rec[k+1]
			predictChroma(mode, rec, x, y, &pred[k])
			cost += sad8(src.pix[src.at(8*x, 8*y):], src.stride, pred[k][:], 8)
		}
		if cost < bestCost {
			bestCost, bestMode, best = cost, mode, pred
		}
	}
	e.predC = best
	return bestMode
}

func predictChroma(mode int, rec *plane, x, y int, pred *[64]byte) {
	o := rec.at(8*x, 8*y)
	switch mode {
	case chromaModeDC:
		for b := 0; b < 4; b++ {
			predictChromaDC(rec, o, b, x > 0, y > 0, pred)
		}
	case chromaModeHorizontal:
		for i := 0; i < 8; i++ {
			fill(pred[i*8:][:8], rec.pix[o+i*rec.stride-1])
		}
	case chromaModeVertical:
		for i := 0; i < 8; i++ {
			copy(pred[i*8:][:8], rec.pix[o-rec.stride:])
		}
	}
}

// predictChromaDC fills 4x4 block b of a chroma macroblock with a mean. The blocks off the diagonal use
// one edge only: the upper right prefers its top, the lower left its left (clause 8.3.4.1).
func predictChromaDC(rec *plane, o, b int, hasLeft, hasTop bool, pred *[64]byte) {
	bx, by := b&1*4, b>>1*4
	top, left := 0, 0
	for i := 0; i < 4; i++ {
		if hasTop {
			top += int(rec.pix[o-rec.stride+bx+i])
		}
		if hasLeft {
			left += int(rec.pix[o+(by+i)*rec.stride-1])
		}
	}
	value := byte(128)
	switch {
	case hasLeft && hasTop && (b == 0 || b == 3):
		value = meanOfSides(top+left, 2, 2)
	case hasTop && (b != 2 || !hasLeft):
		value = meanOfSides(top, 1, 2)
	case hasLeft:
		value = meanOfSides(left, 1, 2)
	}
	for i := 0; i < 4; i++ {
		fill(pred[(by+i)*8+bx:][:4], value)
	}
}
