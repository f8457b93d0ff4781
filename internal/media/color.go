package media

import "latentbeam/internal/media/h264"

// BT.601 weights, limited range (ITU-R BT.601-7, section 2.5), in 16 fractional bits. Row sums are exact:
// white gives 235, greys give 128 for both chroma components.
const (
	yFromR, yFromG, yFromB = 16829, 33039, 6416
	uFromR, uFromG, uFromB = -9714, -19070, 28784
	vFromR, vFromG, vFromB = 28784, -24103, -4681

	fromY          = 76309  // 255/219
	rFromV         = 104597 // 1.402 * 255/224
	gFromU, gFromV = -25675, -53279
	bFromU         = 132201 // 1.772 * 255/224

	fracBits = 16
)

// toYUV converts a frame of p's size. Each chroma sample is the mean of its four pixels.
func toYUV(p *h264.Picture, rgb []byte) {
	w := p.Width
	for i := range p.Y {
		r, g, b := int32(rgb[3*i]), int32(rgb[3*i+1]), int32(rgb[3*i+2])
		p.Y[i] = byte((yFromR*r + yFromG*g + yFromB*b + 16<<fracBits + 1<<(fracBits-1)) >> fracBits)
	}
	const chromaBits = fracBits + 2 // sums of four
	const offset = 128<<chromaBits + 1<<(chromaBits-1)
	for y := 0; y < p.Height/2; y++ {
		top, bottom := rgb[2*y*w*3:][:w*3], rgb[(2*y+1)*w*3:][:w*3]
		u, v := p.U[y*w/2:][:w/2], p.V[y*w/2:][:w/2]
		for x := range u {
			a, c := top[6*x:][:6], bottom[6*x:][:6]
			r := int32(a[0]) + int32(a[3]) + int32(c[0]) + int32(c[3])
			g := int32(a[1]) + int32(a[4]) + int32(c[1]) + int32(c[4])
			b := int32(a[2]) + int32(a[5]) + int32(c[2]) + int32(c[5])
			u[x] = byte((uFromR*r + uFromG*g + uFromB*b + offset) >> chromaBits)
			v[x] = byte((vFromR*r + vFromG*g + vFromB*b + offset) >> chromaBits)
		}
	}
}

// toRGB converts back as players do, using one chroma sample for its four pixels (nearest neighbour, ffmpeg's default from
// yuv420p to rgb24).
func toRGB(rgb []byte, p *h264.Picture) {
	w := p.Width
	for y := 0; y < p.Height; y++ {
		luma, out := p.Y[y*w:][:w], rgb[y*w*3:][:w*3]
		u, v := p.U[y/2*(w/2):][:w/2], p.V[y/2*(w/2):][:w/2]
		for x, c := range luma {
			l := fromY*(int32(c)-16) + 1<<(fracBits-1)
			du, dv := int32(u[x/2])-128, int32(v[x/2])-128
			o := out[3*x:][:3]
			o[0] = clip8((l + rFromV*dv) >> fracBits)
			o[1] = clip8((l + gFromU*du + gFromV*dv) >> fracBits)
			o[2] = clip8((l + bFromU*du) >> fracBits)
		}
	}
}

func clip8(v int32) byte { return byte(min(max(v, 0), 255)) }
