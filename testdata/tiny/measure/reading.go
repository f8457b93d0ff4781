package measure

import "latentbeam/schemas"

// Unknown stands for what could not be read.
const Unknown = "unknown"

// Reading is what a clip shows.
type Reading struct {
	Color      string // red, orange, yellow, green, blue, purple or Unknown
	Shape      string // circle, square, triangle or Unknown
	Motion     string // left, right, up, down, still or Unknown
	Background string // black, grey, white or Unknown

	Features Features
}

// Features are the numbers behind a Reading. Lengths are in pixels, x to the right and y down.
type Features struct {
	BackgroundRGB    [3]uint8
	BackgroundSpread float64 // median distance of border pixels from BackgroundRGB, of 441
	ForegroundRGB    [3]uint8
	Contrast         float64 // median distance of foreground pixels from BackgroundRGB

	Found int     // frames that hold a component of plausible size
	Area  float64 // median over those frames, pixels
	Whole float64 // median share of the foreground that lies in the largest component, 0 to 1

	ColorDistance float64            // from ForegroundRGB to the named colour, CIELAB
	Overlap       map[string]float64 // median intersection over union with each shape
	VelocityX     float64            // pixels a frame
	VelocityY     float64
	Wobble        float64 // median distance of the centroid from the fitted path, pixels
}

// Measure reads a clip. A clip that does not validate or shows no single shape is read as Unknown.
func Measure(c *schemas.Clip) Reading {
	r := Reading{Color: Unknown, Shape: Unknown, Motion: Unknown, Background: Unknown}
	if c.Validate() != nil {
		return r
	}
	f := &r.Features
	f.BackgroundRGB, f.BackgroundSpread = background(c)
	if f.BackgroundSpread > maxBackgroundSpread {
		return r
	}
	r.Background = nameBackground(f.BackgroundRGB)
	seg := segment(c, f.BackgroundRGB)
	f.Contrast, f.Found, f.Area, f.Whole = seg.contrast, len(seg.blobs), seg.area(), seg.whole()
	if f.Found == 0 || float64(f.Found) < minFound*float64(len(c.Frames)) || f.Whole < minWhole {
		return r
	}
	f.ForegroundRGB = seg.color(c)
	r.Color, f.ColorDistance = nameColor(f.ForegroundRGB)
	r.Shape, f.Overlap = nameShape(seg.blobs)
	path := fitPath(seg.blobs)
	f.VelocityX, f.VelocityY, f.Wobble = path.vx, path.vy, path.wobble
	r.Motion = path.name(c.Width, c.Height)
	return r
}
