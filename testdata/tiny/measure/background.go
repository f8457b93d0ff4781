package measure

import (
	"math"

	"latentbeam/schemas"
)

const (
	// ring is the width of the border that counts as background; shapes keep 2 pixels away from the edge.
	ring = 2
	// maxBackgroundSpread is the median distance up to which a border is plain: compression and diffusion
	// leave a few units, noise more than 100.
	maxBackgroundSpread = 30
	// maxGreyDistance is how far a background may be from a named one, in CIELAB.
	maxGreyDistance = 25
)

// background is the median colour of the border over all frames, channel by channel, and the median
// distance of border pixels from it.
func background(c *schemas.Clip) (rgb [3]uint8, spread float64) {
	var channels [3]histogram
	eachBorderPixel(c, func(p []byte) {
		for k := range channels {
			channels[k][p[k]]++
		}
	})
	for k := range channels {
		rgb[k] = uint8(channels[k].median())
	}
	var distances histogram
	eachBorderPixel(c, func(p []byte) { distances[distance(p, rgb)]++ })
	return rgb, float64(distances.median())
}

func eachBorderPixel(c *schemas.Clip, visit func(p []byte)) {
	for _, f := range c.Frames {
		for y := range c.Height {
			inside := y >= ring && y < c.Height-ring
			for x := 0; x < c.Width; x++ {
				if inside && x >= ring && x < c.Width-ring {
					x = c.Width - ring
				}
				visit(f[3*(y*c.Width+x):][:3])
			}
		}
	}
}

// maxDistance is the distance of black and white in RGB, rounded up.
const maxDistance = 442

// distance is the Euclidean distance in RGB, rounded.
func distance(p []byte, q [3]uint8) int {
	d := 0
	for k := range q {
		v := int(p[k]) - int(q[k])
		d += v * v
	}
	return int(math.Sqrt(float64(d)) + 0.5)
}

// histogram counts distances or channel values.
type histogram [maxDistance + 1]int

func (h *histogram) total() (n int) {
	for _, v := range h {
		n += v
	}
	return n
}

// median is the smallest value that at least half of the counts do not exceed.
func (h *histogram) median() int {
	half := (h.total() + 1) / 2
	seen := 0
	for v, n := range h {
		if seen += n; seen >= half && seen > 0 {
			return v
		}
	}
	return 0
}

// otsu is the threshold that separates two classes best: the one of largest variance between them
// (N. Otsu, 1979). Values above it are the upper class.
func (h *histogram) otsu() int {
	total, sum := float64(h.total()), 0.0
	for v, n := range h {
		sum += float64(v) * float64(n)
	}
	best, threshold := -1.0, 0
	below, belowSum := 0.0, 0.0
	for v, n := range h {
		below += float64(n)
		belowSum += float64(v) * float64(n)
		if below == 0 || below == total {
			continue
		}
		gap := belowSum/below - (sum-belowSum)/(total-below)
		if between := below * (total - below) * gap * gap; between > best {
			best, threshold = between, v
		}
	}
	return threshold
}
