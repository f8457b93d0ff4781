package h264

import (
	"cmp"
	"fmt"
)

// DefaultGOP is the number of pictures from one IDR picture to the next.
const DefaultGOP = 24

// Limits of Config.
const (
	// MaxSide is the longest side the highest level allows: sqrt(8*36864) macroblocks.
	MaxSide = 16 * 543
	// MaxMacroblocks is the largest picture of the highest level, 4096x2304 for instance.
	MaxMacroblocks = 36864
	// MaxGOP is the range of frame_num.
	MaxGOP = 1 << frameNumBits
	// MaxFPSTerm limits numerator and denominator of the frame rate: time_scale is twice the numerator.
	MaxFPSTerm = 1<<31 - 1
)

// Config says how to encode. Zero QP and GOP mean the defaults.
type Config struct {
	Width, Height  int    // samples, even
	FPSNum, FPSDen uint32 // pictures a second
	QP             int    // MinQP (best) to MaxQP
	GOP            int    // pictures from IDR to IDR
}

// Check sets defaults and returns an error for values that H.264 in 4:2:0 or this encoder does not support.
func (c Config) Check() (Config, error) {
	c.QP, c.GOP = cmp.Or(c.QP, DefaultQP), cmp.Or(c.GOP, DefaultGOP)
	switch {
	case c.Width < 2 || c.Height < 2 || c.Width > MaxSide || c.Height > MaxSide:
		return c, fmt.Errorf("h264: size %dx%d: each side must be 2 to %d", c.Width, c.Height, MaxSide)
	case c.Width%2 != 0 || c.Height%2 != 0:
		return c, fmt.Errorf("h264: size %dx%d: 4:2:0 video needs even sides, %dx%d for instance",
			c.Width, c.Height, c.Width&^1, c.Height&^1)
	case c.FPSNum == 0 || c.FPSDen == 0 || c.FPSNum > MaxFPSTerm || c.FPSDen > MaxFPSTerm:
		return c, fmt.Errorf("h264: frame rate %d/%d: each term must be 1 to %d",
			c.FPSNum, c.FPSDen, MaxFPSTerm)
	case c.QP < MinQP || c.QP > MaxQP:
		return c, fmt.Errorf("h264: quantiser %d: must be %d to %d", c.QP, MinQP, MaxQP)
	case c.GOP < 1 || c.GOP > MaxGOP:
		return c, fmt.Errorf("h264: GOP of %d pictures: must be 1 to %d", c.GOP, MaxGOP)
	}
	if w, h := c.macroblocks(); w*h > MaxMacroblocks {
		return c, fmt.Errorf("h264: size %dx%d: %d macroblocks of 16x16, the highest level has %d",
			c.Width, c.Height, w*h, MaxMacroblocks)
	}
	return c, nil
}

// macroblocks returns the size of a picture in macroblocks, rounded up.
func (c Config) macroblocks() (width, height int) {
	return (c.Width + 15) / 16, (c.Height + 15) / 16
}
