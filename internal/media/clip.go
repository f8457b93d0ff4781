package media

import (
	"fmt"
	"math"
)

// Limits of a Clip.
const (
	// MaxSide is the longest side of a frame.
	MaxSide = 16384
	// MaxFPS is the highest frame rate.
	MaxFPS = 1000
	// MinFPS is the lowest: one frame in a thousand seconds.
	MinFPS = 0.001
)

// Clip is a video in memory.
type Clip struct {
	Width, Height int
	FPS           float64
	Frames        [][]byte // each Height*Width*3 bytes: rows from the top, pixels from the left, R, G, B
}

// Validate reports the first thing that makes the clip unusable.
func (c *Clip) Validate() error {
	switch {
	case c.Width < 1 || c.Height < 1 || c.Width > MaxSide || c.Height > MaxSide:
		return fmt.Errorf("clip of %dx%d: each side must be 1 to %d", c.Width, c.Height, MaxSide)
	case !(c.FPS >= MinFPS && c.FPS <= MaxFPS):
		return fmt.Errorf("clip of %v frames a second: must be %v to %d", c.FPS, MinFPS, MaxFPS)
	case len(c.Frames) == 0:
		return fmt.Errorf("clip of %dx%d has no frames", c.Width, c.Height)
	}
	for i, f := range c.Frames {
		if len(f) != c.Width*c.Height*3 {
			return fmt.Errorf("clip of %dx%d: frame %d has %d bytes, %d expected",
				c.Width, c.Height, i, len(f), c.Width*c.Height*3)
		}
	}
	return nil
}

// Middle is the frame that stands for the clip as a poster.
func (c *Clip) Middle() []byte { return c.Frames[len(c.Frames)/2] }

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
