package schemas

import "fmt"

// Cut is the part of a row's media that the row is made of, where a job cuts its input into clips. A row without one
// begins with the first frame, and its frames are resized to fill its size and cropped in the middle.
type Cut struct {
	Start int    `json:"start"`          // first frame, counted at the row's fps
	Count int    `json:"count"`          // frames of the media
	Short string `json:"fill,omitempty"` // what follows them up to the row's num_frames: CutLoop or CutPad; "" nothing
	// Filter is that of the resize, see internal/media/resize; "" leaves size and crop to the rule of rows without a cut.
	Filter string `json:"resize,omitempty"`
	// ScaledWidth and ScaledHeight are the size of the resized frame, in pixels.
	ScaledWidth  int `json:"scaled_width,omitempty"`
	ScaledHeight int `json:"scaled_height,omitempty"`
	// X and Y are the pixel of the resized frame in the row's upper left corner. Where they are negative, that many black
	// pixels come before the frame.
	X       int  `json:"x,omitempty"`
	Y       int  `json:"y,omitempty"`
	Flipped bool `json:"flipped,omitempty"` // mirrored, left and right
	// Seek is the time of a keyframe at or before the first frame, and Origin that of the first frame of the file, both in
	// microseconds of the file's clock. They save decoding and change no frame. Seek is 0 where there is nothing to save.
	Seek   int64 `json:"seek,omitempty"`
	Origin int64 `json:"origin,omitempty"`
}

// NullMark ends the id of a clip that the job made without its caption.
const NullMark = "#null"

// What follows the frames of a clip that is too short.
const (
	CutLoop = "loop" // the frames again, from the first on
	CutPad  = "pad"  // the last frame again
)

// String is all that the frames depend on.
func (c Cut) String() string {
	return fmt.Sprintf("%d+%d%s %s %dx%d%+d%+d flipped=%t", c.Start, c.Count, c.Short, c.Filter, c.ScaledWidth, c.ScaledHeight,
		c.X, c.Y, c.Flipped)
}

// Frame is the frame of the media, counted from Start, that is shown as frame i.
func (c Cut) Frame(i int) int {
	switch {
	case i < c.Count:
		return i
	case c.Short == CutLoop:
		return i % c.Count
	}
	return c.Count - 1
}
