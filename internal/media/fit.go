package media

import (
	"fmt"
	"math"

	"latentbeam/internal/media/resize"
	"latentbeam/schemas"
)

// Fitter resizes frames to a size and crops them. Without a cut it does what Open-Sora's "resize_crop" does with training data
// (opensora/datasets, v1.2 and v1.3): frames fill the size and the middle is kept; videos are resized by bilinear interpolation
// without smoothing, single images by Pillow's bicubic filter. With a cut it follows the cut. Non-square pixels are resampled
// in the same step, to the frame's display size.
type Fitter struct {
	from, to   [2]int // height and width
	rows, cols []taps // for videos without a cut

	resizer     *resize.Resizer // for all others; nil for videos without a cut
	pixels      []byte          // its output
	part        resize.Rect     // position of pixels in the result
	flipped     bool
	hasNoBorder bool
}

// NewFitter returns a Fitter for frames like those of info, to height x width, without a cut.
func NewFitter(info SourceInfo, height, width int) (*Fitter, error) {
	f := &Fitter{from: [2]int{info.Height, info.Width}, to: [2]int{height, width}}
	var scaled [2]int
	shownW, shownH := info.shown()
	down, across := float64(height)/float64(shownH), float64(width)/float64(shownW)
	if down > across {
		scaled = [2]int{height, int(math.RoundToEven(float64(shownW) * down))}
	} else {
		scaled = [2]int{int(math.RoundToEven(float64(shownH) * across)), width}
	}
	if err := f.check(info, scaled); err != nil {
		return nil, err
	}
	// The size of the border that is cropped; the two transforms of the reference round differently.
	rest := [2]int{scaled[0] - height, scaled[1] - width}
	if info.Still {
		for axis, n := range rest {
			rest[axis] = int(math.RoundToEven(float64(n) / 2))
		}
		return f, f.resize(resize.Bicubic, scaled, resize.Rect{X: rest[1], Y: rest[0], Width: width, Height: height})
	}
	f.rows = bilinear(f.from[0], scaled[0])[rest[0]/2:][:height]
	f.cols = bilinear(f.from[1], scaled[1])[rest[1]/2:][:width]
	return f, nil
}

// NewCutFitter returns a Fitter for frames like those of info, to height x width, that follows a cut.
func NewCutFitter(info SourceInfo, height, width int, c schemas.Cut) (*Fitter, error) {
	f := &Fitter{from: [2]int{info.Height, info.Width}, to: [2]int{height, width}, flipped: c.Flipped}
	scaled := [2]int{c.ScaledHeight, c.ScaledWidth}
	if err := f.check(info, scaled); err != nil {
		return nil, err
	}
	kept := resize.Rect{X: max(0, c.X), Y: max(0, c.Y)}
	f.part.X, f.part.Y = max(0, -c.X), max(0, -c.Y)
	kept.Width = min(scaled[1]-kept.X, width-f.part.X)
	kept.Height = min(scaled[0]-kept.Y, height-f.part.Y)
	return f, f.resize(resize.Filter(c.Filter), scaled, kept)
}

// check returns an error for sizes that are too large.
func (f *Fitter) check(info SourceInfo, scaled [2]int) error {
	if err := (SourceInfo{Width: f.to[1], Height: f.to[0]}).check(); err != nil {
		return err
	}
	if err := (SourceInfo{Width: scaled[1], Height: scaled[0]}).check(); err != nil {
		return fmt.Errorf("frames of %dx%d do not fit %dx%d: %w", info.Width, info.Height, f.to[1], f.to[0], err)
	}
	return nil
}

// resize makes the fitter show the part kept of the scaled frame.
func (f *Fitter) resize(filter resize.Filter, scaled [2]int, kept resize.Rect) (err error) {
	f.part.Width, f.part.Height = kept.Width, kept.Height
	f.hasNoBorder = kept.Width == f.to[1] && kept.Height == f.to[0]
	f.resizer, err = resize.New(filter, resize.Size{Width: f.from[1], Height: f.from[0]},
		resize.Size{Width: scaled[1], Height: scaled[0]}, kept)
	if err == nil {
		f.pixels = make([]byte, kept.Width*kept.Height*3)
	}
	return err
}

// Fit fills dst (height, width, 3) with a frame, with values in [-1, 1].
func (f *Fitter) Fit(dst []float32, rgb []byte) {
	if f.resizer == nil {
		f.fitFrame(dst, rgb)
		return
	}
	f.resizer.Resize(f.pixels, rgb)
	if !f.hasNoBorder {
		for i := range dst {
			dst[i] = levels[0]
		}
	}
	for y := range f.part.Height {
		row := f.pixels[3*y*f.part.Width:][:3*f.part.Width]
		line := dst[3*(y+f.part.Y)*f.to[1]:][:3*f.to[1]]
		if !f.flipped {
			for i, v := range row {
				line[3*f.part.X+i] = levels[v]
			}
			continue
		}
		for x := range f.part.Width {
			at := 3 * (f.to[1] - 1 - f.part.X - x)
			for c, v := range row[3*x:][:3] {
				line[at+c] = levels[v]
			}
		}
	}
}

// levels are the values for bytes, computed in fp32 as PyTorch does.
var levels = func() (v [256]float32) {
	for i := range v {
		v[i] = (float32(i)/255 - 0.5) / 0.5
	}
	return v
}()

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

// taps are the two source pixels of one result pixel, and their weights.
type taps struct {
	first, last int
	weights     [2]float32
}

// bilinear returns the taps for interpolation between the centres of pixels (align_corners=False).
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
