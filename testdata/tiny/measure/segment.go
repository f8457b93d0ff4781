package measure

import (
	"slices"

	"latentbeam/schemas"
)

const (
	// minContrast is the least distance of a shape from its background; the closest colours of the
	// world, purple on grey, are 121 apart.
	minContrast = 50
	// minArea and maxArea are the plausible size of a shape as a share of the frame.
	minArea, maxArea = 0.02, 0.4
	// minFound is the share of frames that must hold a shape.
	minFound = 0.75
	// minWhole is the share of the foreground that must lie in one component.
	minWhole = 0.7
)

// blob is the largest component of one frame.
type blob struct {
	frame         int
	width, height int    // of the frame
	mask          []bool // rows of the frame
	area          int
	share         float64 // of all foreground pixels of the frame
	cx, cy        float64 // centroid
}

// segments is the foreground of a clip.
type segments struct {
	contrast float64
	blobs    []blob // at most one a frame, in order
}

// segment splits every frame at half the distance between the background and the typical foreground, where
// the edge of a blurred shape lies. One threshold serves all frames.
func segment(c *schemas.Clip, back [3]uint8) segments {
	var all histogram
	for _, f := range c.Frames {
		for i := 0; i < len(f); i += 3 {
			all[distance(f[i:i+3], back)]++
		}
	}
	upper := all
	for v := range all.otsu() + 1 {
		upper[v] = 0
	}
	s := segments{contrast: float64(upper.median())}
	if s.contrast < minContrast {
		return s
	}
	for i, f := range c.Frames {
		b, ok := largestComponent(f, c.Width, c.Height, back, int(s.contrast/2))
		if share := float64(b.area) / float64(c.Width*c.Height); ok && share >= minArea && share <= maxArea {
			b.frame = i
			s.blobs = append(s.blobs, b)
		}
	}
	return s
}

// largestComponent finds the largest 8-connected set of pixels farther than threshold from the background.
func largestComponent(f []byte, w, h int, back [3]uint8, threshold int) (blob, bool) {
	labels := make([]int32, w*h) // 0 background, -1 foreground not yet visited
	foreground := 0
	for i := range labels {
		if distance(f[3*i:][:3], back) > threshold {
			labels[i] = -1
			foreground++
		}
	}
	best, bestArea, next := int32(0), 0, int32(0)
	var stack []int
	for start := range labels {
		if labels[start] != -1 {
			continue
		}
		next++
		area := 0
		labels[start] = next
		for stack = append(stack[:0], start); len(stack) > 0; area++ {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			x, y := i%w, i/w
			for ny := max(y-1, 0); ny <= min(y+1, h-1); ny++ {
				for nx := max(x-1, 0); nx <= min(x+1, w-1); nx++ {
					if n := ny*w + nx; labels[n] == -1 {
						labels[n] = next
						stack = append(stack, n)
					}
				}
			}
		}
		if area > bestArea {
			best, bestArea = next, area
		}
	}
	if bestArea == 0 {
		return blob{}, false
	}
	b := blob{width: w, height: h, mask: make([]bool, w*h), area: bestArea}
	b.share = float64(bestArea) / float64(foreground)
	for i, l := range labels {
		if l == best {
			b.mask[i] = true
			b.cx += float64(i%w) / float64(bestArea)
			b.cy += float64(i/w) / float64(bestArea)
		}
	}
	return b, true
}

// inner reports whether pixel i and its eight neighbours all belong to the blob, so that no edge and no
// chroma of the background has mixed into it.
func (b *blob) inner(i int) bool {
	x, y := i%b.width, i/b.width
	if x == 0 || y == 0 || x == b.width-1 || y == b.height-1 {
		return false
	}
	for row := i - b.width; row <= i+b.width; row += b.width {
		if !b.mask[row-1] || !b.mask[row] || !b.mask[row+1] {
			return false
		}
	}
	return true
}

// color is the median of the inner pixels of all blobs, channel by channel.
func (s *segments) color(c *schemas.Clip) (rgb [3]uint8) {
	var channels [3]histogram
	for k := range s.blobs {
		b := &s.blobs[k]
		for i := range b.mask {
			if b.inner(i) {
				p := c.Frames[b.frame][3*i:][:3]
				channels[0][p[0]]++
				channels[1][p[1]]++
				channels[2][p[2]]++
			}
		}
	}
	for k := range channels {
		rgb[k] = uint8(channels[k].median())
	}
	return rgb
}

func (s *segments) area() float64 {
	return medianOf(s.blobs, func(b *blob) float64 { return float64(b.area) })
}

func (s *segments) whole() float64 {
	return medianOf(s.blobs, func(b *blob) float64 { return b.share })
}

// medianOf is the median of a number of each blob, 0 without blobs.
func medianOf(blobs []blob, value func(b *blob) float64) float64 {
	values := make([]float64, len(blobs))
	for i := range blobs {
		values[i] = value(&blobs[i])
	}
	return median(values)
}

// median sorts values. Of an even number it is the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
