package measure

import "math"

const (
	// minSpeed is the speed, in frame sides a frame, from which a shape moves: half of the slowest of the
	// world, 1.6 of 64 pixels.
	minSpeed = 0.8 / 64
	// minStraight is how many times the speed along the main axis must exceed that across it.
	minStraight = 2
	// maxWobble is how far the centroid may stray from a straight path in the median, in frame sides.
	maxWobble = 3.0 / 64
	// maxPoints bounds the pairs of frames that are compared in a long clip.
	maxPoints = 128
)

// path is a straight line through the centroids.
type path struct {
	points int
	vx, vy float64 // pixels a frame
	wobble float64 // median distance from the line at the same time, pixels
}

// fitPath takes the median of the slopes between all pairs of frames (Theil and Sen), which a few misread
// frames cannot turn.
func fitPath(blobs []blob) path {
	if step := (len(blobs) + maxPoints - 1) / maxPoints; step > 1 {
		var some []blob
		for i := 0; i < len(blobs); i += step {
			some = append(some, blobs[i])
		}
		blobs = some
	}
	p := path{points: len(blobs)}
	var xs, ys []float64
	for i := range blobs {
		for k := range blobs[:i] {
			dt := float64(blobs[i].frame - blobs[k].frame)
			xs = append(xs, (blobs[i].cx-blobs[k].cx)/dt)
			ys = append(ys, (blobs[i].cy-blobs[k].cy)/dt)
		}
	}
	p.vx, p.vy = median(xs), median(ys)
	x0 := medianOf(blobs, func(b *blob) float64 { return b.cx - p.vx*float64(b.frame) })
	y0 := medianOf(blobs, func(b *blob) float64 { return b.cy - p.vy*float64(b.frame) })
	p.wobble = medianOf(blobs, func(b *blob) float64 {
		t := float64(b.frame)
		return math.Hypot(b.cx-x0-p.vx*t, b.cy-y0-p.vy*t)
	})
	return p
}

// name is Unknown for a single frame, for a path that is not straight and for diagonals.
func (p path) name(width, height int) string {
	vx, vy := p.vx/float64(width), p.vy/float64(height)
	ax, ay := math.Abs(vx), math.Abs(vy)
	switch {
	case p.points < 2 || p.wobble > maxWobble*float64(min(width, height)):
		return Unknown
	case max(ax, ay) < minSpeed:
		return "still"
	case max(ax, ay) < minStraight*min(ax, ay):
		return Unknown
	case ax > ay && vx < 0:
		return "left"
	case ax > ay:
		return "right"
	case vy < 0:
		return "up"
	default:
		return "down"
	}
}
