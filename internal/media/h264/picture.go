package h264

// Picture is one 4:2:0 picture of 8 bits: Y has Width*Height samples, U and V a quarter of that each.
// Rows follow each other without gaps.
type Picture struct {
	Width, Height int
	Y, U, V       []byte
}

// NewPicture allocates a picture. Width and height must be even.
func NewPicture(width, height int) *Picture {
	chroma := width / 2 * (height / 2)
	return &Picture{
		Width: width, Height: height,
		Y: make([]byte, width*height), U: make([]byte, chroma), V: make([]byte, chroma),
	}
}

// border is how far reference planes reach beyond the picture; motion vectors may point there
// (clause 8.4.2.2.1 clamps coordinates, which a repeated edge reproduces). Chroma has half of it.
const border = 32

// plane is one colour component, padded on all sides.
type plane struct {
	pix           []byte
	width, height int
	stride        int
	origin        int // index of sample (0, 0)
	pad           int
}

func newPlane(width, height, pad int) *plane {
	stride := width + 2*pad
	return &plane{
		pix:   make([]byte, stride*(height+2*pad)),
		width: width, height: height, stride: stride, origin: pad*stride + pad, pad: pad,
	}
}

func (p *plane) at(x, y int) int { return p.origin + y*p.stride + x }

// extend repeats the edge samples into the border.
func (p *plane) extend() {
	for y := 0; y < p.height; y++ {
		row := p.at(0, y)
		left, right := p.pix[row], p.pix[row+p.width-1]
		for i := 1; i <= p.pad; i++ {
			p.pix[row-i] = left
			p.pix[row+p.width-1+i] = right
		}
	}
	top := p.pix[p.at(-p.pad, 0):][:p.stride]
	bottom := p.pix[p.at(-p.pad, p.height-1):][:p.stride]
	for i := 1; i <= p.pad; i++ {
		copy(p.pix[p.at(-p.pad, -i):], top)
		copy(p.pix[p.at(-p.pad, p.height-1+i):], bottom)
	}
}

// load copies a w by h component into the plane and repeats its right and bottom edge up to whole
// macroblocks.
func (p *plane) load(src []byte, w, h int) {
	for y := 0; y < p.height; y++ {
		row := p.pix[p.at(0, y):][:p.width]
		copy(row, src[min(y, h-1)*w:][:w])
		for x := w; x < p.width; x++ {
			row[x] = row[w-1]
		}
	}
}

// store copies the upper left w by h samples out.
func (p *plane) store(dst []byte, w, h int) {
	for y := 0; y < h; y++ {
		copy(dst[y*w:][:w], p.pix[p.at(0, y):])
	}
}

// planes is Y, U, V of whole macroblocks.
type planes [3]*plane

func newPlanes(mbWidth, mbHeight, pad int) planes {
	return planes{
		newPlane(16*mbWidth, 16*mbHeight, pad),
		newPlane(8*mbWidth, 8*mbHeight, pad/2),
		newPlane(8*mbWidth, 8*mbHeight, pad/2),
	}
}

func (s *planes) load(p *Picture) {
	s[0].load(p.Y, p.Width, p.Height)
	s[1].load(p.U, p.Width/2, p.Height/2)
	s[2].load(p.V, p.Width/2, p.Height/2)
}

func (s *planes) store(p *Picture) {
	s[0].store(p.Y, p.Width, p.Height)
	s[1].store(p.U, p.Width/2, p.Height/2)
	s[2].store(p.V, p.Width/2, p.Height/2)
}
