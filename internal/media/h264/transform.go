package h264

// A block is a 4x4 block in raster order.
type block [16]int32

// forward applies the 4x4 core transform: the transpose of clause 8.5.12.2, without its scaling.
func (d *block) forward() {
	for i := 0; i < 16; i += 4 {
		a, b, c, e := d[i]+d[i+3], d[i+1]+d[i+2], d[i+1]-d[i+2], d[i]-d[i+3]
		d[i], d[i+1], d[i+2], d[i+3] = a+b, 2*e+c, a-b, e-2*c
	}
	for i := 0; i < 4; i++ {
		a, b, c, e := d[i]+d[i+12], d[i+4]+d[i+8], d[i+4]-d[i+8], d[i]-d[i+12]
		d[i], d[i+4], d[i+8], d[i+12] = a+b, 2*e+c, a-b, e-2*c
	}
}

// inverse applies the 4x4 residual transform with its final rounding (clause 8.5.12.2).
func (d *block) inverse() {
	for i := 0; i < 16; i += 4 {
		a, b, c, e := d[i]+d[i+2], d[i]-d[i+2], d[i+1]>>1-d[i+3], d[i+1]+d[i+3]>>1
		d[i], d[i+1], d[i+2], d[i+3] = a+e, b+c, b-c, a-e
	}
	for i := 0; i < 4; i++ {
		a, b, c, e := d[i]+d[i+8], d[i]-d[i+8], d[i+4]>>1-d[i+12], d[i+4]+d[i+12]>>1
		d[i], d[i+4], d[i+8], d[i+12] = (a+e+32)>>6, (b+c+32)>>6, (b-c+32)>>6, (a-e+32)>>6
	}
}

// hadamard applies the 4x4 transform of the Intra_16x16 DC levels (clause 8.5.10). Apart from a factor, it is its own inverse.
func (d *block) hadamard() {
	for i := 0; i < 16; i += 4 {
		a, b, c, e := d[i]+d[i+3], d[i+1]+d[i+2], d[i+1]-d[i+2], d[i]-d[i+3]
		d[i], d[i+1], d[i+2], d[i+3] = a+b, e+c, a-b, e-c
	}
	for i := 0; i < 4; i++ {
		a, b, c, e := d[i]+d[i+12], d[i+4]+d[i+8], d[i+4]-d[i+8], d[i]-d[i+12]
		d[i], d[i+4], d[i+8], d[i+12] = a+b, e+c, a-b, e-c
	}
}

// hadamard2 applies the 2x2 transform of the chroma DC levels (clause 8.5.11.1).
func hadamard2(d [4]int32) [4]int32 {
	return [4]int32{
		d[0] + d[1] + d[2] + d[3], d[0] - d[1] + d[2] - d[3],
		d[0] + d[1] - d[2] - d[3], d[0] - d[1] - d[2] + d[3],
	}
}

// subtract fills d with the 4x4 difference src - pred.
func (d *block) subtract(src []byte, srcStride int, pred []byte, predStride int) {
	for y := 0; y < 4; y++ {
		s, p := src[y*srcStride:][:4], pred[y*predStride:][:4]
		d[4*y] = int32(s[0]) - int32(p[0])
		d[4*y+1] = int32(s[1]) - int32(p[1])
		d[4*y+2] = int32(s[2]) - int32(p[2])
		d[4*y+3] = int32(s[3]) - int32(p[3])
	}
}

// addTo writes the clipped 4x4 sum pred + d to dst (clause 8.5.14).
func (d *block) addTo(dst []byte, dstStride int, pred []byte, predStride int) {
	for y := 0; y < 4; y++ {
		o, p := dst[y*dstStride:][:4], pred[y*predStride:][:4]
		o[0] = clip8(int32(p[0]) + d[4*y])
		o[1] = clip8(int32(p[1]) + d[4*y+1])
		o[2] = clip8(int32(p[2]) + d[4*y+2])
		o[3] = clip8(int32(p[3]) + d[4*y+3])
	}
}

func clip8(v int32) byte {
	if uint32(v) > 255 {
		if v < 0 {
			return 0
		}
		return 255
	}
	return byte(v)
}
