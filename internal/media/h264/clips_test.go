package h264

// scene fills picture i of a test clip by name.
type scene struct {
	name string
	fill func(i int, p *Picture)
}

// pixels returns Y, U and V of one pixel of picture i.
type pixels func(x, y, i int) (byte, byte, byte)

var scenes = []scene{
	{"gradient", func(i int, p *Picture) { paint(p, i, gradient) }},
	{"static", func(_ int, p *Picture) { paint(p, 0, gradient) }},
	{"shapes", func(i int, p *Picture) { paint(p, i, shapes) }},
	{"noise", func(i int, p *Picture) {
		s := uint32(i)*2654435761 + 12345
		paint(p, i, func(_, _, _ int) (byte, byte, byte) {
			s = s*1664525 + 1013904223
			return byte(s >> 24), byte(s >> 16), byte(s >> 8)
		})
	}},
	{"checker", func(i int, p *Picture) {
		paint(p, i, func(x, y, i int) (byte, byte, byte) {
			v := byte(255 * ((x>>4 ^ y>>4 ^ i) & 1))
			return v, v, 255 - v
		})
	}},
	{"cuts", func(i int, p *Picture) {
		paint(p, i, func(x, y, i int) (byte, byte, byte) {
			if i%5 == 4 {
				v := byte(x*7919>>3) ^ byte(y*31)
				return v, 128, 64
			}
			return shapes(x, y, 3*i)
		})
	}},
}

func paint(p *Picture, i int, at pixels) {
	for y := 0; y < p.Height; y++ {
		for x := 0; x < p.Width; x++ {
			Y, U, V := at(x, y, i)
			p.Y[y*p.Width+x] = Y
			if x&y&1 == 1 {
				p.U[y/2*(p.Width/2)+x/2], p.V[y/2*(p.Width/2)+x/2] = U, V
			}
		}
	}
}

func gradient(x, y, i int) (byte, byte, byte) {
	return byte(16 + (x*3+y*2+i*4)%220), byte(64 + (x+i)%128), byte(200 - (y+2*i)%128)
}

// shapes draws two discs and a fast bar over a slow texture.
func shapes(x, y, i int) (byte, byte, byte) {
	disc := func(cx, cy, r int) bool { return (x-cx)*(x-cx)+(y-cy)*(y-cy) < r*r }
	switch {
	case disc(10+3*i, 12+i, 9):
		return 200, 90, 200
	case disc(60-2*i, 30+2*i, 14):
		return 80, 220, 60
	case y > 40 && y < 46 && (x+9*i)%64 < 20:
		return 235, 128, 128
	}
	return byte(100 + (x*x/7+y*5+i/2)%40), 120, 136
}
