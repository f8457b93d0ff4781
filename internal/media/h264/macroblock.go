package h264

// macroblock holds the facts of a coded macroblock that later macroblocks need.
type macroblock struct {
	inter       bool
	mv          vector // zero unless inter
	lumaCount   [16]uint8
	chromaCount [2][4]uint8
}

// mb_type of Intra_16x16 and I_PCM in I slices (table 7-11); P slices add intraInP (clause 7.4.5).
const (
	typeI16x16 = 1
	typePCM    = 25
	intraInP   = 5
)

// maxMacroblockBits is the limit of clause A.3.1 on macroblock_layer(): 128 + RawMbBits.
const maxMacroblockBits = 128 + 8*384

// neighbour returns a macroblock of this picture that is already coded, nil outside of the picture.
func (e *encoder) neighbour(x, y int) *macroblock {
	if x < 0 || y < 0 || x >= e.mbWidth {
		return nil
	}
	return &e.mbs[y*e.mbWidth+x]
}

// codeIntraMB chooses and writes a macroblock of an I slice.
func (e *encoder) codeIntraMB(x, y int, m *macroblock) {
	mode, _ := e.chooseIntra(x, y)
	e.pred = e.cand
	e.writeIntra(x, y, mode, 0, m)
}

// codeInterMB chooses and writes a macroblock of a P slice.
func (e *encoder) codeInterMB(x, y int, m *macroblock) {
	predicted, skip := e.predictVector(x, y)
	mv, cost := e.searchVector(x, y, predicted)
	if e.rangeOf(x, y).holds(skip) {
		src := e.src[0]
		e.interp.luma(&e.cand, 16*x, 16*y, skip)
		skipCost := sad16(src.pix[src.at(16*x, 16*y):], src.stride, e.cand[:], 16, 1<<30)
		// Two lambdas represent the smallest cost in bits of mb_type and two vector differences.
		if skipCost <= cost+2*e.lambda {
			mv, cost, e.pred = skip, skipCost, e.cand
		}
	}
	if mode, intraCost := e.chooseIntra(x, y); intraCost < cost {
		e.pred = e.cand
		e.writeSkipRun()
		e.writeIntra(x, y, mode, intraInP, m)
		return
	}
	m.inter, m.mv = true, mv
	for k := range e.predC {
		predictChromaInter(&e.predC[k], e.ref[k+1], 8*x, 8*y, mv)
	}
	lumaPattern := e.codeInterLuma(x, y, m)
	chromaPattern := e.codeChroma(x, y, m, 6)
	if lumaPattern|chromaPattern == 0 && mv == skip {
		e.skipRun++
		return
	}
	e.writeSkipRun()
	e.writeInter(x, y, vector{mv.x - predicted.x, mv.y - predicted.y}, lumaPattern, chromaPattern, m)
}

func (e *encoder) writeSkipRun() {
	e.w.ue(e.skipRun)
	e.skipRun = 0
}

// writeInter writes P_L0_16x16 (clause 7.3.5) with vector difference d.
func (e *encoder) writeInter(x, y int, d vector, lumaPattern, chromaPattern int, m *macroblock) {
	w, mark := &e.w, e.w
	w.ue(0) // mb_type P_L0_16x16
	w.se(d.x)
	w.se(d.y)
	w.ue(uint32(interCBP[lumaPattern|chromaPattern<<4]))
	if lumaPattern|chromaPattern != 0 {
		w.se(0) // mb_qp_delta
		for b := range e.lv.luma {
			if lumaPattern>>(b>>2)&1 == 1 {
				w.residual(e.lv.luma[b][:], e.lumaContext(x, y, b))
			}
		}
		e.writeChroma(x, y, chromaPattern, m)
	}
	if w.length()-mark.length() > maxMacroblockBits {
		w.rewind(mark)
		e.writePCM(x, y, intraInP, m)
	}
}

// writeIntra codes and writes Intra_16x16 predicted by e.pred. base is 0 in I and intraInP in P slices.
func (e *encoder) writeIntra(x, y, mode int, base uint32, m *macroblock) {
	m.inter, m.mv = false, vector{}
	anyAC := e.codeIntraLuma(x, y, m)
	chromaMode := e.chooseIntraChroma(x, y)
	chromaPattern := e.codeChroma(x, y, m, 3)
	mbType := typeI16x16 + mode + 4*chromaPattern
	if anyAC {
		mbType += 12
	}
	w, mark := &e.w, e.w
	w.ue(base + uint32(mbType))
	w.ue(uint32(chromaMode))
	w.se(0) // mb_qp_delta
	w.residual(e.lv.lumaDC[:], e.lumaContext(x, y, 0))
	if anyAC {
		for b := range e.lv.luma {
			w.residual(e.lv.luma[b][1:], e.lumaContext(x, y, b))
		}
	}
	e.writeChroma(x, y, chromaPattern, m)
	if w.length()-mark.length() > maxMacroblockBits {
		w.rewind(mark)
		e.writePCM(x, y, base, m)
	}
}

func (e *encoder) writeChroma(x, y, pattern int, m *macroblock) {
	if pattern > 0 {
		for k := range e.lv.chromaDC {
			e.w.residual(e.lv.chromaDC[k][:], chromaDC)
		}
	}
	if pattern < 2 {
		return
	}
	for k := range e.lv.chroma {
		for b := range e.lv.chroma[k] {
			e.w.residual(e.lv.chroma[k][b][1:], e.chromaContext(x, y, k, b))
		}
	}
}

// writePCM writes the samples themselves. Its blocks count as 16 levels each (clause 9.2.1).
func (e *encoder) writePCM(x, y int, base uint32, m *macroblock) {
	*m = macroblock{}
	for b := range m.lumaCount {
		m.lumaCount[b] = 16
	}
	e.w.ue(base + typePCM)
	e.w.align()
	for k, size := range [3]int{16, 8, 8} {
		src, rec := e.src[k], e.rec[k]
		for i := 0; i < size; i++ {
			row := src.pix[src.at(size*x, size*y+i):][:size]
			e.w.buf = append(e.w.buf, row...)
			copy(rec.pix[rec.at(size*x, size*y+i):], row)
		}
		if k > 0 {
			m.chromaCount[k-1] = [4]uint8{16, 16, 16, 16}
		}
	}
}
