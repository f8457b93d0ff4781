package media

import "image"

// fromYCbCr converts a decoded jpeg to RGB as libjpeg does, which PIL and the reference's loaders use. Subsampled chroma is
// interpolated ("fancy upsampling", jdsample.c: each output is 3/4 of the nearest sample and 1/4 of the next), while Go's
// conversion repeats it. Products are rounded, not truncated (jdcolor.c).
func fromYCbCr(rgb []byte, m *image.YCbCr) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	u := upsampler{ratio: m.SubsampleRatio, rows: h, line: make([]int, (w+1)/2)}
	cb, cr := make([]byte, w+1), make([]byte, w+1)
	for y := range h {
		u.row(cb, m.Cb, m.CStride, y)
		u.row(cr, m.Cr, m.CStride, y)
		luma := m.Y[y*m.YStride:][:w]
		out := rgb[3*y*w:][:3*w]
		for x, l := range luma {
			convert(out[3*x:][:3], int(l), int(cb[x])-128, int(cr[x])-128)
		}
	}
}

// convert converts YCbCr of ITU-R BT.601, full range, to RGB with 16 fractional bits.
func convert(out []byte, y, cb, cr int) {
	const half = 1 << 15
	out[0] = clamp(y + (91881*cr+half)>>16)           // 1.402
	out[1] = clamp(y + (-22554*cb-46802*cr+half)>>16) // 0.344136, 0.714136
	out[2] = clamp(y + (116130*cb+half)>>16)          // 1.772
}

func clamp(v int) byte { return byte(max(0, min(v, 255))) }

// upsampler enlarges rows of a chroma plane to the size of the image.
type upsampler struct {
	ratio image.YCbCrSubsampleRatio
	rows  int   // of the image
	line  []int // sums of two rows of the plane
}

// row writes row y of the image. dst has the length of a row after upsampling.
func (u *upsampler) row(dst, plane []byte, stride, y int) {
	width := len(dst) - 1
	switch n := len(u.line); {
	case u.ratio == image.YCbCrSubsampleRatio422 && n > 2:
		across(dst, plane[y*stride:][:n])
	case u.ratio == image.YCbCrSubsampleRatio420 && n > 2:
		near, next := u.neighbours(plane, stride, y, n)
		for i := range near {
			u.line[i] = 3*int(near[i]) + int(next[i])
		}
		acrossSums(dst, u.line)
	case u.ratio == image.YCbCrSubsampleRatio440:
		near, next := u.neighbours(plane, stride, y, width)
		for i := range near {
			dst[i] = byte((3*int(near[i]) + int(next[i]) + 1 + y%2) / 4)
		}
	default: // no subsampling, or ratios for which libjpeg also repeats samples
		at := image.YCbCr{SubsampleRatio: u.ratio, CStride: stride}
		for x := range width {
			dst[x] = plane[at.COffset(x, y)]
		}
	}
}

// neighbours returns the first n samples of the nearest row for row y, in a plane with half the rows, and of the next nearest
// row. At the edges both are the same row.
func (u *upsampler) neighbours(plane []byte, stride, y, n int) (near, next []byte) {
	last := (u.rows+1)/2 - 1
	other := min(max(0, y/2-1+y%2*2), last)
	return plane[y/2*stride:][:n], plane[other*stride:][:n]
}

// across doubles the width of a row of at least three samples.
func across(dst, src []byte) {
	n := len(src)
	for i, v := range src {
		before, behind := src[max(0, i-1)], src[min(i+1, n-1)]
		put(dst, 2*i, (3*int(v)+int(before)+1)/4)
		put(dst, 2*i+1, (3*int(v)+int(behind)+2)/4)
	}
}

// acrossSums doubles the width of a row of sums of four samples.
func acrossSums(dst []byte, src []int) {
	n := len(src)
	for i, v := range src {
		before, behind := src[max(0, i-1)], src[min(i+1, n-1)]
		put(dst, 2*i, (3*v+before+8)/16)
		put(dst, 2*i+1, (3*v+behind+7)/16)
	}
}

func put(dst []byte, i, v int) {
	if i < len(dst) {
		dst[i] = byte(v)
	}
}
