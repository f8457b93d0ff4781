package h264

// nal_unit_type with nal_ref_idc 3 for parameter sets and IDR pictures, 2 for others (table 7-1).
const (
	nalIDR   = 3<<5 | 5
	nalSlice = 2<<5 | 1
	nalSPS   = 3<<5 | 7
	nalPPS   = 3<<5 | 8
)

// frameNumBits is log2_max_frame_num, which limits the length of a GOP.
const frameNumBits = 8

// encoder codes the pictures of one GOP after another. It is not safe for concurrent use.
type encoder struct {
	mbWidth, mbHeight int
	maxVectorY        int // vertical vector limit of the level, in samples
	lambda            int // cost of one bit in units of SAD
	luma, chroma      quantiser

	src, rec, ref planes
	interp        interpolator
	mbs, prev     []macroblock // of this picture and the one before

	w       bitWriter
	skipRun uint32
	lv      levels
	pred    [256]byte   // chosen luma prediction
	cand    [256]byte   // candidate luma prediction
	predC   [2][64]byte // chroma predictions
}

func newEncoder(c Config) *encoder {
	mbWidth, mbHeight := c.macroblocks()
	return &encoder{
		mbWidth: mbWidth, mbHeight: mbHeight,
		maxVectorY: c.level(0).maxVectorY,
		lambda:     lambdaTable[c.QP],
		luma:       newQuantiser(c.QP),
		chroma:     newQuantiser(chromaQP[c.QP]),
		src:        newPlanes(mbWidth, mbHeight, 0),
		rec:        newPlanes(mbWidth, mbHeight, border),
		ref:        newPlanes(mbWidth, mbHeight, border),
		interp:     newInterpolator(16*mbWidth, 16*mbHeight),
		mbs:        make([]macroblock, mbWidth*mbHeight),
		prev:       make([]macroblock, mbWidth*mbHeight),
	}
}

// lambdaTable is round(0.9 * 2^((QP-12)/6)) and at least 1: distortion grows with the quantiser step,
// which doubles every 6. A table, so that no floating-point rounding can reach the bitstream.
var lambdaTable = [52]int{
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2,
	2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10, 11, 13,
	14, 16, 18, 20, 23, 26, 29, 32, 36, 41, 46, 51, 58, 65, 73, 81,
}

// encode codes e.src as one picture and returns its NAL unit. number counts from the IDR picture of the
// GOP, gop counts GOPs. Afterwards e.ref is the picture a decoder shows.
func (e *encoder) encode(number, gop int) []byte {
	e.w = bitWriter{buf: e.w.buf[:0]}
	idr := number == 0
	e.sliceHeader(number, gop)
	e.skipRun = 0
	if !idr {
		e.interp.prepare(e.ref[0])
	}
	for y := 0; y < e.mbHeight; y++ {
		for x := 0; x < e.mbWidth; x++ {
			m := &e.mbs[y*e.mbWidth+x]
			*m = macroblock{}
			if idr {
				e.codeIntraMB(x, y, m)
			} else {
				e.codeInterMB(x, y, m)
			}
		}
	}
	if e.skipRun > 0 {
		e.writeSkipRun()
	}
	e.w.trailing()
	for _, p := range e.rec {
		p.extend()
	}
	e.rec, e.ref = e.ref, e.rec
	e.mbs, e.prev = e.prev, e.mbs
	if idr {
		return nalUnit(nalIDR, e.w.buf)
	}
	return nalUnit(nalSlice, e.w.buf)
}

// sliceHeader writes clause 7.3.3 for a picture of one slice; pic_order_cnt_type 2 needs nothing.
func (e *encoder) sliceHeader(number, gop int) {
	const allP, allI = 5, 7 // slice_type: every slice of the picture is of that type
	w := &e.w
	idr := number == 0
	w.ue(0) // first_mb_in_slice
	if idr {
		w.ue(allI)
	} else {
		w.ue(allP)
	}
	w.ue(0) // pic_parameter_set_id
	w.bits(uint32(number)&(1<<frameNumBits-1), frameNumBits)
	if idr {
		w.ue(uint32(gop & 1)) // idr_pic_id, which must differ between neighbours
		w.flag(false)         // no_output_of_prior_pics_flag
		w.flag(false)         // long_term_reference_flag
	} else {
		w.flag(false) // num_ref_idx_active_override_flag
		w.flag(false) // ref_pic_list_modification_flag_l0
		w.flag(false) // adaptive_ref_pic_marking_mode_flag
	}
	w.se(e.luma.qp - basePictureQP) // slice_qp_delta
	w.ue(1)                         // disable_deblocking_filter_idc
}
