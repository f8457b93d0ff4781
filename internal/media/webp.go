package media

import "image"

// fromVP8 converts the planes of a lossy webp to RGB as libwebp does, which Pillow uses: chroma is interpolated ("fancy
// upsampling", src/dsp/upsampling.c), and colours are limited-range BT.601 in its fixed point (src/dsp/yuv.h).
func fromVP8(rgb []byte, m *image.YCbCr) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	u, v := make([]byte, w), make([]byte, w)
	for y := range h {
		fancyRow(u, m.Cb, m.CStride, y, h)
		fancyRow(v, m.Cr, m.CStride, y, h)
		luma, out := m.Y[y*m.YStride:][:w], rgb[3*y*w:][:3*w]
		for x, l := range luma {
			vp8Pixel(out[3*x:][:3], int(l), int(u[x]), int(v[x]))
		}
	}
}

// fancyRow interpolates row y of a plane with half the rows and columns of an image with h rows: 9/16 of the nearest sample,
// 3/16 of its two neighbours and 1/16 of the farthest. Odd rows are above the border of two rows of samples, even ones below
// it.
func fancyRow(dst, plane []byte, stride, y, h int) {
	near := y / 2
	far := near - 1 + y%2*2
	if far < 0 || far > (h-1)/2 {
		far = near
	}
	a, b := plane[near*stride:], plane[far*stride:]
	w := len(dst)
	dst[0] = byte((3*int(a[0]) + int(b[0]) + 2) >> 2)
	for x := 1; x < w; x += 2 { // pixels x and x+1 are between samples x/2 and x/2+1
		i := x / 2
		if i+1 > (w-1)/2 { // last pixel of an even row
			dst[x] = byte((3*int(a[i]) + int(b[i]) + 2) >> 2)
			return
		}
		a0, a1, b0, b1 := int(a[i]), int(a[i+1]), int(b[i]), int(b[i+1])
		// libwebp halves twice, the diagonals first.
		sum := a0 + a1 + b0 + b1 + 8
		one, other := (sum+2*(a1+b0))>>3, (sum+2*(a0+b1))>>3
		dst[x] = byte((one + a0) >> 1)
		if x+1 < w {
			dst[x+1] = byte((other + a1) >> 1)
		}
	}
}

// vp8Pixel converts a pixel like libwebp's VP8YUVToR, VP8YUVToG and VP8YUVToB.
func vp8Pixel(out []byte, y, u, v int) {
	l := y * 19077 >> 8
	out[0] = clip6(l + v*26149>>8 - 14234)
	out[1] = clip6(l - u*6419>>8 - v*13320>>8 + 8708)
	out[2] = clip6(l + u*33050>>8 - 17685)
}

// clip6 removes six fractional bits and limits the value to a byte.
func clip6(v int) byte {
	const top = 256<<6 - 1
	if v < 0 {
		return 0
	}
	return byte(min(v, top) >> 6)
}
