package resize

import (
	"fmt"
	"math"
)

// Interpolator resizes RGB images as PyTorch's interpolate does without antialiasing (align_corners=False): a result pixel
// depends on two or four source pixels per axis around its position, however much the image shrinks, and is neither rounded nor
// clipped. VBench reads frames this way. It is safe for concurrent use.
type Interpolator struct {
	from       Size
	part       Rect
	rows, cols []places
}

// places are the source pixels of one result pixel along an axis.
type places struct {
	at      [4]int
	weights [4]float32
	n       int
}

// NewInterpolator returns an Interpolator between two sizes, with Bilinear or Bicubic (PyTorch's, a = -0.75), that keeps part
// of the result.
func NewInterpolator(f Filter, from, to Size, part Rect) (*Interpolator, error) {
	along := map[Filter]func(from, to int) []places{Bilinear: linearPlaces, Bicubic: cubicPlaces}[f]
	if along == nil {
		return nil, fmt.Errorf("interpolation %q is not one of %s, %s", f, Bilinear, Bicubic)
	}
	if min(from.Width, from.Height, to.Width, to.Height, part.Width, part.Height) < 1 || min(part.X, part.Y) < 0 ||
		part.X+part.Width > to.Width || part.Y+part.Height > to.Height {
		return nil, fmt.Errorf("interpolate %dx%d to %dx%d and keep %dx%d at (%d, %d): no such part", from.Width, from.Height, to.Width,
			to.Height, part.Width, part.Height, part.X, part.Y)
	}
	return &Interpolator{from, part, along(from.Height, to.Height)[part.Y:][:part.Height], along(from.Width, to.Width)[part.X:][:part.Width]}, nil
}

// linearPlaces returns the places of a bilinear filter, computed in fp32 as PyTorch does.
func linearPlaces(from, to int) []places {
	scale := float32(from) / float32(to)
	out := make([]places, to)
	for i := range out {
		at := max(float32(scale*(float32(i)+0.5))-0.5, 0)
		first := min(int(at), from-1)
		second := min(first+1, from-1)
		w := min(max(at-float32(first), 0), 1)
		out[i] = places{[4]int{first, second}, [4]float32{1 - w, w}, 2}
	}
	return out
}

// cubicPlaces returns the places of a bicubic filter.
func cubicPlaces(from, to int) []places {
	const a = -0.75
	scale := float32(from) / float32(to)
	near := func(x float32) float32 { return float32(float32(float32((a+2)*x)-(a+3))*x)*x + 1 }
	far := func(x float32) float32 { return float32(float32(float32(a*x)-5*a)*x+8*a)*x - 4*a }
	out := make([]places, to)
	for i := range out {
		at := float32(scale*(float32(i)+0.5)) - 0.5
		first := int(math.Floor(float64(at)))
		t := min(max(at-float32(first), 0), 1)
		out[i].weights = [4]float32{far(t + 1), near(t), near(1 - t), far(2 - t)}
		for j := range out[i].at {
			out[i].at[j] = min(max(first-1+j, 0), from-1)
		}
		out[i].n = 4
	}
	return out
}

// Interpolate fills dst with the part's height x width x 3 numbers from 0 to 255 (with Bicubic they may slightly exceed the
// range). src has the source's height x width x 3 bytes.
func (r *Interpolator) Interpolate(dst []float32, src []byte) { interpolate(r, dst, src) }

// InterpolateValues is Interpolate for an image of numbers.
func (r *Interpolator) InterpolateValues(dst, src []float32) { interpolate(r, dst, src) }

func interpolate[T byte | float32](r *Interpolator, dst []float32, src []T) {
	stride := r.from.Width * 3
	lines := map[int][]float32{} // rows of the source, resized horizontally
	for y, down := range r.rows {
		out := dst[y*r.part.Width*3:][:r.part.Width*3]
		clear(out)
		for j := range down.n {
			row := down.at[j]
			line := lines[row]
			if line == nil {
				line = make([]float32, len(out))
				along(r, line, src[row*stride:][:stride])
				lines[row] = line
			}
			w := down.weights[j]
			for i, v := range line {
				out[i] += float32(w * v)
			}
		}
		for row := range lines {
			if row < down.at[0] {
				delete(lines, row)
			}
		}
	}
}

// along resizes one row.
func along[T byte | float32](r *Interpolator, dst []float32, row []T) {
	for x, p := range r.cols {
		out := dst[3*x:][:3]
		for j := range p.n {
			pixel, w := row[3*p.at[j]:][:3], p.weights[j]
			out[0] += float32(w * float32(pixel[0]))
			out[1] += float32(w * float32(pixel[1]))
			out[2] += float32(w * float32(pixel[2]))
		}
	}
}
