package schemas

import "fmt"

// MinFPS is the lowest frame rate of a clip: one frame in a thousand seconds.
const MinFPS = 0.001

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

// Middle returns the middle frame. It is the poster of the clip.
func (c *Clip) Middle() []byte { return c.Frames[len(c.Frames)/2] }

// MediaFile is a video or an image that a stage made, for a later stage to read.
type MediaFile struct {
	Data []byte
	Ext  string // with its dot, such as ".mp4"
}

// Encoded is a finished file.
type Encoded struct {
	Data  []byte
	Ext   string // with its dot: ".mp4", ".png"
	Codec string // "h264", "png"
	// Recon is the clip as a player shows it, after compression; nil if the encoder does not know it.
	Recon *Clip
	// Width and Height of the clip in pixels, and its number of frames.
	Width, Height, Frames int
	// Markable files get the marks of the output. A file that a user's program wrote is not markable: it stays as it is.
	Markable bool
}
