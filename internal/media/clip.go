package media

import (
	"math"
)

// maxRateDenominator bounds the fraction that stands for a frame rate; 1001 is that of NTSC.
const maxRateDenominator = 1001

// frameRate is fps as a fraction. Rates within rounding of NTSC's (23.976, 29.97, 59.94) become exactly
// those; others the nearest fraction with a small denominator, by its continued fraction.
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
