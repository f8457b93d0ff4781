package media

import (
	"math"
)

// maxRateDenominator limits the denominator of a frame rate as a fraction; NTSC's is 1001.
const maxRateDenominator = 1001

// frameRate returns fps as a fraction. Rates close to NTSC's (23.976, 29.97, 59.94) become exactly these; other rates become
// the nearest fraction with a small denominator, by continued fractions.
func frameRate(fps float64) (num, den uint32) {
	const ntscTolerance = 5e-4
	whole := math.Round(fps * 1.001)
	if whole >= 1 && fps != math.Trunc(fps) && math.Abs(whole/1.001-fps) < ntscTolerance {
		return uint32(whole) * 1000, 1001
	}
	h0, k0, h1, k1 := 0.0, 1.0, 1.0, 0.0
	x := fps
	for {
		whole := math.Floor(x)
		h2, k2 := whole*h1+h0, whole*k1+k0
		if k2 > maxRateDenominator {
			break
		}
		h0, k0, h1, k1 = h1, k1, h2, k2
		if math.Abs(h1/k1-fps) < 1e-9*fps {
			break
		}
		x = 1 / (x - whole)
	}
	return uint32(h1), uint32(k1)
}
