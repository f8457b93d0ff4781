package h264

// interpolator holds the reference luma with its three half-sample planes (clause 8.4.2.2.1): between
// two columns, between two rows, and between both.
type interpolator struct {
	full              *plane
	horz, vert, cross *plane
	columns           []int16 // vertical filter sums before rounding, which cross needs
}

func newInterpolator(width, height int) interpolator {
	it := interpolator{
		horz:  newPlane(width, height, border),
		vert:  newPlane(width, height, border),
		cross: newPlane(width, height, border),
	}
	it.columns = make([]int16, it.horz.stride)
	return it
}

// sixTap applies the filter of equations 8-241 and 8-242.
func sixTap(a, b, c, d, e, f int32) int32 { return a - 5*b + 20*c + 20*d - 5*e + f }

// prepare fills the half-sample planes from the padded reference. The outermost two or three samples of
// the border stay unset; searchRange keeps vectors away from them.
func (it *interpolator) prepare(ref *plane) {
	it.full = ref
	stride := ref.stride
	rows := len(ref.pix) / stride
	row := func(y int) []byte { return ref.pix[y*stride:][:stride] }
	for y := 0; y < rows; y++ {
		p, horz := row(y), it.horz.pix[y*stride:][:stride]
		for x := 2; x < stride-3; x++ {
			q := p[x-2:][:6]
			v := sixTap(int32(q[0]), int32(q[1]), int32(q[2]), int32(q[3]), int32(q[4]), int32(q[5]))
			horz[x] = clip8((v + 16) >> 5)
		}
		if y < 2 || y >= rows-3 {
			continue
		}
		a, b, d, e, f := row(y-2), row(y-1), row(y+1), row(y+2), row(y+3)
		vert, sums := it.vert.pix[y*stride:][:stride], it.columns[:stride]
		for x := range sums {
			v := sixTap(int32(a[x]), int32(b[x]), int32(p[x]), int32(d[x]), int32(e[x]), int32(f[x]))
			sums[x] = int16(v)
			vert[x] = clip8((v + 16) >> 5)
		}
		cross := it.cross.pix[y*stride:][:stride]
		for x := 2; x < stride-3; x++ {
			q := sums[x-2:][:6]
			v := sixTap(int32(q[0]), int32(q[1]), int32(q[2]), int32(q[3]), int32(q[4]), int32(q[5]))
			cross[x] = clip8((v + 512) >> 10)
		}
	}
}

// The four planes from which a quarter-sample position is computed.
const (
	fromFull = iota
	fromHorz
	fromVert
	fromCross
)

// Every quarter-sample position is one plane's sample or the rounded mean of two (table 8-12), indexed by
// 4*(vertical fraction) + (horizontal fraction).
var (
	firstPlane = [16]uint8{
		fromFull, fromHorz, fromHorz, fromHorz,
		fromFull, fromHorz, fromHorz, fromHorz,
		fromVert, fromCross, fromCross, fromCross,
		fromFull, fromHorz, fromHorz, fromHorz,
	}
	secondPlane = [16]uint8{
		fromFull, fromFull, fromHorz, fromFull,
		fromVert, fromVert, fromCross, fromVert,
		fromVert, fromVert, fromCross, fromVert,
		fromVert, fromVert, fromCross, fromVert,
	}
)

func (it *interpolator) samples(which uint8) []byte {
	switch which {
	case fromHorz:
		return it.horz.pix
	case fromVert:
		return it.vert.pix
	case fromCross:
		return it.cross.pix
	default:
		return it.full.pix
	}
}

// luma writes the 16x16 prediction at sample (px, py) displaced by v.
func (it *interpolator) luma(dst *[256]byte, px, py int, v vector) {
	stride := it.full.stride
	fx, fy := v.x&3, v.y&3
	o := it.full.at(px+v.x>>2, py+v.y>>2)
	first := o
	if fy == 3 {
		first += stride
	}
	a := it.samples(firstPlane[4*fy+fx])
	if fx&1 == 0 && fy&1 == 0 {
		for y := 0; y < 16; y++ {
			copy(dst[y*16:][:16], a[first+y*stride:])
		}
		return
	}
	second := o
	if fx == 3 {
		second++
	}
	b := it.samples(secondPlane[4*fy+fx])
	for y := 0; y < 16; y++ {
		p, q, d := a[first+y*stride:][:16], b[second+y*stride:][:16], dst[y*16:][:16]
		for x := range d {
			d[x] = byte((uint32(p[x]) + uint32(q[x]) + 1) >> 1)
		}
	}
}

// predictChromaInter writes the 8x8 bilinear prediction (clause 8.4.2.2.2) of chroma sample (px, py)
// displaced by v, which is in eighths of a chroma sample.
func predictChromaInter(dst *[64]byte, ref *plane, px, py int, v vector) {
	dx, dy := uint32(v.x&7), uint32(v.y&7)
	a, b, c, d := (8-dx)*(8-dy), dx*(8-dy), (8-dx)*dy, dx*dy
	o := ref.at(px+v.x>>3, py+v.y>>3)
	for y := 0; y < 8; y++ {
		p, q := ref.pix[o+y*ref.stride:][:9], ref.pix[o+(y+1)*ref.stride:][:9]
		out := dst[y*8:][:8]
		for x := range out {
			sum := a*uint32(p[x]) + b*uint32(p[x+1]) + c*uint32(q[x]) + d*uint32(q[x+1])
			out[x] = byte((sum + 32) >> 6)
		}
	}
}
