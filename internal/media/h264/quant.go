package h264

// Quantisers accepted by this encoder. The standard allows 0 as well; 0 here means "the default".
const (
	MinQP     = 1
	MaxQP     = 51
	DefaultQP = 20
)

// zigzag is the frame scan of a 4x4 block (table 8-2): scan position to raster position.
var zigzag = [16]int{0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15}

// chromaQP is table 8-15 with chroma_qp_index_offset 0: QPY to QPC.
var chromaQP = [52]int{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
	29, 30, 31, 32, 32, 33, 34, 34, 35, 35, 36, 36, 37, 37, 37, 38, 38, 38, 39, 39, 39, 39,
}

// levelScale is normAdjust4x4 (equation 8-315) by QP%6 and by class of position: both coordinates even,
// both odd, other.
var levelScale = [6][3]int32{
	{10, 16, 13}, {11, 18, 14}, {13, 20, 16}, {14, 23, 18}, {16, 25, 20}, {18, 29, 23},
}

// quantScale is the matching multiplier of the encoder: 2^21 over levelScale and over the squared norm
// of the transform's basis at that position (16, 25, 20).
var quantScale = [6][3]int32{
	{13107, 5243, 8066}, {11916, 4660, 7490}, {10082, 4194, 6554},
	{9362, 3647, 5825}, {8192, 3355, 5243}, {7282, 2893, 4559},
}

// A quantiser holds one QP's multipliers in raster order.
type quantiser struct {
	qp    int
	shift uint   // of the forward scaling
	step  uint   // QP/6, the left shift of the inverse scaling
	mul   *block // forward
	scale *block // inverse
}

func newQuantiser(qp int) quantiser {
	q := quantiser{qp: qp, shift: uint(15 + qp/6), step: uint(qp / 6), mul: new(block), scale: new(block)}
	for i := range q.mul {
		class := 2
		switch x, y := i&3, i>>2; {
		case x&1 == 0 && y&1 == 0:
			class = 0
		case x&1 == 1 && y&1 == 1:
			class = 1
		}
		q.mul[i], q.scale[i] = quantScale[qp%6][class], levelScale[qp%6][class]
	}
	return q
}

// deadzone returns the rounding offset 2^shift/divisor. As in the reference model, divisor is 3 for intra and 6 for inter blocks.
func (q *quantiser) deadzone(divisor int32) int32 { return int32(1<<q.shift) / divisor }

// quantise replaces the coefficients in d by dequantised coefficients, and writes the levels in scan order, starting at scan position
// first. It returns the number of levels that are not zero.
func (q *quantiser) quantise(d *block, levels *[16]int16, first int, deadzone int32) uint8 {
	nonZero := uint8(0)
	for i := first; i < 16; i++ {
		z := zigzag[i]
		l := quantLevel(d[z], q.mul[z], deadzone, q.shift)
		levels[i] = l
		if l != 0 {
			nonZero++
		}
		d[z] = int32(l) * q.scale[z] << q.step
	}
	return nonZero
}

func quantLevel(v, mul, deadzone int32, shift uint) int16 {
	if v < 0 {
		return -int16(min((-v*mul+deadzone)>>shift, maxLevel))
	}
	return int16(min((v*mul+deadzone)>>shift, maxLevel))
}

// quantiseDC replaces the 16 DC coefficients of an Intra_16x16 macroblock, in raster order of blocks, by the input of the inverse transform
// (clause 8.5.10), and writes their levels in scan order.
func (q *quantiser) quantiseDC(dc *block, levels *[16]int16, deadzone int32) {
	dc.hadamard()
	for i, z := range zigzag {
		levels[i] = quantLevel((dc[z]+1)>>1, q.mul[0], 2*deadzone, q.shift+1)
		dc[z] = int32(levels[i])
	}
	dc.hadamard()
	for i := range dc {
		v := dc[i] * q.scale[0] * 16
		if q.step >= 6 {
			dc[i] = v << (q.step - 6)
		} else {
			dc[i] = (v + 1<<(5-q.step)) >> (6 - q.step)
		}
	}
}

// quantiseChromaDC does the same for the four DC coefficients of one chroma plane (clause 8.5.11).
func (q *quantiser) quantiseChromaDC(dc [4]int32, levels *[4]int16, deadzone int32) [4]int32 {
	dc = hadamard2(dc)
	for i := range dc {
		levels[i] = quantLevel(dc[i], q.mul[0], 2*deadzone, q.shift+1)
		dc[i] = int32(levels[i])
	}
	dc = hadamard2(dc)
	for i := range dc {
		dc[i] = (dc[i] * q.scale[0] * 16 << q.step) >> 5
	}
	return dc
}
