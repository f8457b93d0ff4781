package media

import (
	"fmt"
	"math"
)

// Fitter resizes frames until they fill a size and cuts out the middle, as Open-Sora's "resize_crop" does
// with its training data (opensora/datasets, v1.2 and v1.3): videos by bilinear interpolation without
// smoothing, single images by PIL's bicubic filter.
type Fitter struct {
	from, to   [2]int // height and width
	scaled     [2]int
	top, left  int
	smooth     bool
	rows, cols []taps
}

// NewFitter prepares for frames like those of info to be fitted into height x width.
func NewFitter(info Info, height, width int) (*Fitter, error) {
	if err := (Info{Width: width, Height: height}).check(); err != nil {
		return nil, err
	}
	f := &Fitter{from: [2]int{info.Height, info.Width}, to: [2]int{height, width}, smooth: info.Still}
	down, across := float64(height)/float64(info.Height), float64(width)/float64(info.Width)
	if down > across {
		f.scaled = [2]int{height, int(math.RoundToEven(float64(info.Width) * down))}
	} else {
		f.scaled = [2]int{int(math.RoundToEven(float64(info.Height) * across)), width}
	}
	if err := (Info{Width: f.scaled[1], Height: f.scaled[0]}).check(); err != nil {
		return nil, fmt.Errorf("frames of %dx%d do not fit %dx%d: %w", info.Width, info.Height, width, height, err)
	}
	f.top, f.left = f.middle(0), f.middle(1)
	if f.smooth {
		f.rows, f.cols = bicubic(f.from[0], f.scaled[0]), bicubic(f.from[1], f.scaled[1])
	} else {
		f.rows, f.cols = bilinear(f.from[0], f.scaled[0]), bilinear(f.from[1], f.scaled[1])
	}
	f.rows, f.cols = f.rows[f.top:][:height], f.cols[f.left:][:width]
	return f, nil
}

// middle is how much is cut off before the middle; the two transforms of the reference round differently.
func (f *Fitter) middle(axis int) int {
	rest := f.scaled[axis] - f.to[axis]
	if f.smooth {
		return int(math.RoundToEven(float64(rest) / 2))
	}
	return rest / 2
}

// Fit fills dst (height, width, 3) with a frame, its values in [-1, 1].
func (f *Fitter) Fit(dst []float32, rgb []byte) {
	if f.smooth {
		f.fitImage(dst, rgb)
		return
	}
	f.fitFrame(dst, rgb)
}

// fitFrame interpolates between the four nearest pixels, in fp32 as PyTorch does.
func (f *Fitter) fitFrame(dst []float32, rgb []byte) {
	stride := 3 * f.from[1]
	value := func(row, col, c int) float32 { return float32(rgb[row*stride+3*col+c]) / 255 }
	for y, r := range f.rows {
		for x, q := range f.cols {
			for c := range 3 {
				top := float32(q.weights[0]*value(r.first, q.first, c)) + float32(q.weights[1]*value(r.first, q.last, c))
				low := float32(q.weights[0]*value(r.last, q.first, c)) + float32(q.weights[1]*value(r.last, q.last, c))
				v := float32(r.weights[0]*top) + float32(r.weights[1]*low)
				dst[(y*f.to[1]+x)*3+c] = (v - 0.5) / 0.5
			}
		}
	}
}

// taps are the source pixels of one result: first to last with their weights.
type taps struct {
	first, last int
	weights     [2]float32 // of first and last
	fixed       []int32    // of all, in fixed point
}

// bilinear is interpolation between the centres of pixels (align_corners=False).
func bilinear(from, to int) []taps {
	scale := float32(from) / float32(to)
	out := make([]taps, to)
	for i := range out {
		at := max(0, float32(scale*(float32(i)+0.5))-0.5)
		first := min(int(at), from-1)
		weight := min(max(at-float32(first), 0), 1)
		out[i] = taps{first: first, last: min(first+1, from-1), weights: [2]float32{1 - weight, weight}}
	}
	return out
}

// PIL's resize of 8-bit images works in fixed point, rows first, and rounds between the two passes.
const (
	cubicBits    = 22
	cubicSupport = 2.0
)

// bicubic is the filter with a = -0.5, widened where the picture shrinks.
func bicubic(from, to int) []taps {
	scale := float64(from) / float64(to)
	wide := max(scale, 1)
	support := cubicSupport * wide
	out := make([]taps, to)
	for i := range out {
		center := (float64(i) + 0.5) * scale
		first := max(0, int(center-support+0.5))
		end := min(from, int(center+support+0.5))
		weights := make([]float64, end-first)
		sum := 0.0
		for j := range weights {
			weights[j] = cubic((float64(j+first) - center + 0.5) / wide)
			sum += weights[j]
		}
		fixed := make([]int32, len(weights))
		for j, w := range weights {
			fixed[j] = int32(math.Round(w / sum * (1 << cubicBits)))
		}
		out[i] = taps{first: first, last: end - 1, fixed: fixed}
	}
	return out
}

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

// fitImage fills dst, its values in [-1, 1].
func (f *Fitter) fitImage(dst []float32, rgb []byte) {
	f.resize(func(at int, v byte) { dst[at] = (float32(v)/255 - 0.5) / 0.5 }, rgb)
}

// resize resizes along rows, then along columns. put takes the values (height, width, 3).
func (f *Fitter) resize(put func(at int, v byte), rgb []byte) {
	first, last := f.rows[0].first, f.rows[len(f.rows)-1].last
	width := f.to[1]
	mid := make([]byte, (last-first+1)*width*3)
	for y := first; y <= last; y++ {
		row := rgb[y*f.from[1]*3:][:f.from[1]*3]
		for x, q := range f.cols {
			for c := range 3 {
				sum := int32(1 << (cubicBits - 1))
				for j, w := range q.fixed {
					sum += w * int32(row[3*(q.first+j)+c])
				}
				mid[((y-first)*width+x)*3+c] = clip8(sum >> cubicBits)
			}
		}
	}
	for y, r := range f.rows {
		for x := range width {
			for c := range 3 {
				sum := int32(1 << (cubicBits - 1))
				for j, w := range r.fixed {
					sum += w * int32(mid[((r.first-first+j)*width+x)*3+c])
				}
				put((y*width+x)*3+c, clip8(sum>>cubicBits))
			}
		}
	}
}
