package measure

import "math"

// outline reports whether a point belongs to a shape of the given area whose centroid is the origin.
type outline struct {
	name   string
	inside func(x, y, area float64) bool
}

// triangleRise is the height of the world's triangle as a share of its base.
const triangleRise = 0.88

// outlines are the shapes of testdata/tiny/train/README.md.
var outlines = []outline{
	{"circle", func(x, y, area float64) bool { return x*x+y*y <= area/math.Pi }},
	{"square", func(x, y, area float64) bool { return max(math.Abs(x), math.Abs(y)) <= math.Sqrt(area)/2 }},
	{"triangle", func(x, y, area float64) bool {
		base := math.Sqrt(2 * area / triangleRise)
		rise := triangleRise * base
		fromApex := y + rise*2/3 // the centroid lies two thirds down
		return fromApex >= 0 && fromApex <= rise && math.Abs(x) <= base/2*fromApex/rise
	}},
}

// minOverlap is the intersection over union below which a blob is none of the shapes. A circle and a
// square of equal area overlap by 0.83, either and the triangle by less than 0.7.
const minOverlap = 0.75

// nameShape picks the shape whose outline, at each blob's centroid and area, overlaps it best in the median
// frame.
func nameShape(blobs []blob) (string, map[string]float64) {
	overlaps := make(map[string]float64, len(outlines))
	name, best := Unknown, minOverlap
	for _, o := range outlines {
		v := medianOf(blobs, func(b *blob) float64 { return o.overlap(b) })
		overlaps[o.name] = v
		if v > best {
			name, best = o.name, v
		}
	}
	return name, overlaps
}

// overlap is intersection over union.
func (o *outline) overlap(b *blob) float64 {
	both, either := 0, 0
	for i, in := range b.mask {
		drawn := o.inside(float64(i%b.width)-b.cx, float64(i/b.width)-b.cy, float64(b.area))
		if in && drawn {
			both++
		}
		if in || drawn {
			either++
		}
	}
	return float64(both) / float64(either)
}
