package musiq

import (
	"math"

	"latentbeam/internal/media/resize"
)

const (
	patchSide = 32 // pixels
	gridSide  = 10 // places of the grid of positions, for any size of the image
	channels  = 3
)

// longerSides are the lengths of the longer side, in pixels, of the smaller sizes in which an image is viewed.
var longerSides = []int{224, 384}

// Views describes how MUSIQ views images of one size. It is safe for concurrent use.
type Views struct {
	size   resize.Size
	scales []scale
	// Places and Scales have for each patch its place in the grid and the index of its size.
	Places, Scales []int32
}

// scale is one of the sizes in which an image is viewed.
type scale struct {
	size          resize.Size
	by            *resize.Interpolator // nil: the image's own size
	rows, columns int                  // number of patches
	above, before int                  // padding in pixels
}

// NewViews returns the views for images of this size (pixels).
func NewViews(height, width int) (*Views, error) {
	v := &Views{size: resize.Size{Width: width, Height: height}}
	for _, longer := range append(longerSides[:len(longerSides):len(longerSides)], 0) {
		s := scale{size: v.size}
		if longer > 0 {
			ratio := float64(longer) / float64(max(height, width))
			s.size = resize.Size{Width: max(1, int(math.RoundToEven(float64(width)*ratio))), Height: max(1, int(math.RoundToEven(float64(height)*ratio)))}
			var err error
			if s.by, err = resize.NewInterpolator(resize.Bicubic, v.size, s.size, resize.Rect{Width: s.size.Width, Height: s.size.Height}); err != nil {
				return nil, err
			}
		}
		s.rows, s.columns = (s.size.Height+patchSide-1)/patchSide, (s.size.Width+patchSide-1)/patchSide
		s.above, s.before = (s.rows*patchSide-s.size.Height)/2, (s.columns*patchSide-s.size.Width)/2
		for y := range s.rows {
			for x := range s.columns {
				v.Places = append(v.Places, int32(nearestPlace(y, s.rows)*gridSide+nearestPlace(x, s.columns)))
				v.Scales = append(v.Scales, int32(len(v.scales)))
			}
		}
		v.scales = append(v.scales, s)
	}
	return v, nil
}

// nearestPlace returns the place of the grid nearest to patch i of n, as PyTorch's interpolate does.
func nearestPlace(i, n int) int {
	return min(int(float32(i)*(float32(gridSide)/float32(n))), gridSide-1)
}

// Len returns how many numbers the patches of an image have.
func (v *Views) Len() int { return len(v.Places) * patchSide * patchSide * channels }

// Pixels returns how many numbers an image has.
func (v *Views) Pixels() int { return v.size.Height * v.size.Width * channels }

// Patches writes the patches (N, 32, 32, 3) of an image (height, width, 3) with values from 0 to 255. They are normalised to
// [-1, 1]; zeros fill incomplete patches.
func (v *Views) Patches(dst, image []float32) {
	clear(dst)
	normal := make([]float32, len(image))
	for i, x := range image {
		normal[i] = (float32(x/255) - 0.5) * 2
	}
	for _, s := range v.scales {
		values := normal
		if s.by != nil {
			values = make([]float32, s.size.Height*s.size.Width*channels)
			s.by.InterpolateValues(values, normal)
		}
		for y := range s.size.Height {
			for x := range s.size.Width {
				down, right := y+s.above, x+s.before
				patch := down/patchSide*s.columns + right/patchSide
				at := ((patch*patchSide+down%patchSide)*patchSide + right%patchSide) * channels
				copy(dst[at:at+channels], values[(y*s.size.Width+x)*channels:])
			}
		}
		dst = dst[s.rows*s.columns*patchSide*patchSide*channels:]
	}
}
