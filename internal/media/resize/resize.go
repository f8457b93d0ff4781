// Package resize changes the size of RGB images as Pillow does, value for value: Image.resize of 8-bit images
// (Pillow's src/libImaging/Resample.c), whose filters grow with the source where an image shrinks. torchvision's resize
// with antialias=True has the same filters; its rounding differs by at most 1 (see resize_test.go).
//
// The package does not know files, decoders, or other pixel formats.
package resize

import (
	"fmt"
	"math"
	"strings"
)

// Filter is the name of a filter in a job file.
type Filter string

// The filters, in Pillow's terms BOX, BILINEAR, BICUBIC and LANCZOS.
const (
	Area     Filter = "area"     // mean of the source pixels that a result pixel covers
	Bilinear Filter = "bilinear" // triangle
	Bicubic  Filter = "bicubic"  // Keys' cubic with a = -0.5
	Lanczos  Filter = "lanczos"  // sinc windowed to three lobes
)

// kernel is a filter: its value at a distance from the centre, zero outside of the support.
type kernel struct {
	support float64 // in pixels, if the image does not shrink
	at      func(x float64) float64
}

var kernels = map[Filter]kernel{
	Area:     {0.5, box},
	Bilinear: {1, triangle},
	Bicubic:  {2, cubic},
	Lanczos:  {lobes, lanczos},
}

// Filters lists the names of the filters.
func Filters() []string {
	return []string{string(Area), string(Bilinear), string(Bicubic), string(Lanczos)}
}

const lobes = 3

func box(x float64) float64 {
	if x > -0.5 && x <= 0.5 {
		return 1
	}
	return 0
}

func triangle(x float64) float64 { return max(0, 1-math.Abs(x)) }

func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return (((x-5)*x+8)*x - 4) * a
	}
	return 0
}

func lanczos(x float64) float64 {
	if -lobes <= x && x < lobes {
		return sinc(x) * sinc(x/lobes)
	}
	return 0
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// fractionBits is the number of fractional bits of Pillow's fixed point for 8-bit images. Pillow rounds to bytes between the
// two passes.
const fractionBits = 32 - 8 - 2

// taps are the source pixels of one result pixel: one for each weight, starting at first.
type taps struct {
	first   int
	weights []int32
}

// Rect is a part of an image: its upper left corner and its size in pixels.
type Rect struct{ X, Y, Width, Height int }

// Size is a width and a height in pixels.
type Size struct{ Width, Height int }

// Resizer resizes images between two sizes and keeps a part of the result. It is not safe for concurrent use.
type Resizer struct {
	from       Size
	part       Rect
	rows, cols []taps
	top        int    // first row of the source that is needed
	mid        []byte // the needed rows, resized horizontally
	sums       []int32
}

// New returns a Resizer between two sizes that keeps part of the result. It returns an error for an unknown filter, and for
// invalid sizes and parts.
func New(f Filter, from, to Size, part Rect) (*Resizer, error) {
	k, known := kernels[f]
	if !known {
		return nil, fmt.Errorf("resize filter %q is not one of %s", f, strings.Join(Filters(), ", "))
	}
	if min(from.Width, from.Height, to.Width, to.Height, part.Width, part.Height) < 1 || min(part.X, part.Y) < 0 ||
		part.X+part.Width > to.Width || part.Y+part.Height > to.Height {
		return nil, fmt.Errorf("resize %dx%d to %dx%d and keep %dx%d at (%d, %d): no such part", from.Width, from.Height, to.Width,
			to.Height, part.Width, part.Height, part.X, part.Y)
	}
	r := &Resizer{from: from, part: part}
	r.rows = k.taps(from.Height, to.Height)[part.Y:][:part.Height]
	r.cols = k.taps(from.Width, to.Width)[part.X:][:part.Width]
	end := 0
	r.top = from.Height
	for _, t := range r.rows {
		r.top, end = min(r.top, t.first), max(end, t.first+len(t.weights))
	}
	r.mid = make([]byte, (end-r.top)*part.Width*3)
	r.sums = make([]int32, part.Width*3)
	return r, nil
}

// taps returns the source pixels of every result pixel along one axis.
func (k kernel) taps(from, to int) []taps {
	scale := float64(from) / float64(to)
	wide := max(scale, 1)
	support := k.support * wide
	inverse := 1 / wide
	out := make([]taps, to)
	for i := range out {
		center := (float64(i) + 0.5) * scale
		first := max(0, int(center-support+0.5))
		end := min(from, int(center+support+0.5))
		weights := make([]float64, end-first)
		sum := 0.0
		for j := range weights {
			weights[j] = k.at((float64(j+first) - center + 0.5) * inverse)
			sum += weights[j]
		}
		out[i] = taps{first, fixed(weights, sum)}
	}
	return out
}

// fixed divides weights by their sum and rounds them half away from zero.
func fixed(weights []float64, sum float64) []int32 {
	out := make([]int32, len(weights))
	for i, w := range weights {
		if sum != 0 {
			w /= sum
		}
		out[i] = int32(math.Round(w * (1 << fractionBits)))
	}
	return out
}

// Resize fills dst with the part's height x width x 3 bytes. src has the source's height x width x 3 bytes.
func (r *Resizer) Resize(dst, src []byte) {
	width := r.part.Width
	stride := r.from.Width * 3
	for y := 0; y < len(r.mid)/(width*3); y++ {
		r.along(r.mid[y*width*3:][:width*3], src[(r.top+y)*stride:][:stride])
	}
	for y, t := range r.rows {
		r.across(dst[y*width*3:][:width*3], t)
	}
}

// half rounds a value that is shifted right by fractionBits.
const half = 1 << (fractionBits - 1)

// along resizes one row.
func (r *Resizer) along(dst, row []byte) {
	for x, t := range r.cols {
		red, green, blue := int32(half), int32(half), int32(half)
		pixels := row[3*t.first:][:3*len(t.weights)]
		for j, w := range t.weights {
			p := pixels[3*j:][:3]
			red += w * int32(p[0])
			green += w * int32(p[1])
			blue += w * int32(p[2])
		}
		out := dst[3*x:][:3]
		out[0], out[1], out[2] = clip8(red>>fractionBits), clip8(green>>fractionBits), clip8(blue>>fractionBits)
	}
}

// across computes one row of the result from rows in mid.
func (r *Resizer) across(dst []byte, t taps) {
	sums := r.sums[:len(dst)]
	for i := range sums {
		sums[i] = half
	}
	for j, w := range t.weights {
		row := r.mid[(t.first-r.top+j)*len(dst):][:len(sums)]
		for i, v := range row {
			sums[i] += w * int32(v)
		}
	}
	for i, s := range sums {
		dst[i] = clip8(s >> fractionBits)
	}
}

func clip8(v int32) byte { return byte(min(max(v, 0), 255)) }
