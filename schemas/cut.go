package schemas

import "fmt"

// Cut selects the part of a media file that becomes a row, in jobs that cut their input into clips. A row without a Cut starts
// at the first frame; its frames are resized to fill the row's size and cropped in the middle.
type Cut struct {
	Start int    `json:"start"`          // first frame, counted at the row's fps
	Count int    `json:"count"`          // number of frames used from the media
	Short string `json:"fill,omitempty"` // how the clip is filled up to the row's num_frames: CutLoop, CutPad or "" (not at all)
	// Filter is the filter of the resize, see internal/media/resize. "": size and crop follow the rule for rows without a Cut.
	Filter string `json:"resize,omitempty"`
	// ScaledWidth and ScaledHeight are the size of the resized frame, in pixels.
	ScaledWidth  int `json:"scaled_width,omitempty"`
	ScaledHeight int `json:"scaled_height,omitempty"`
	// X and Y are the position of the clip's upper left corner in the resized frame, in pixels. A negative value adds a black
	// border of that many pixels before the frame.
	X       int  `json:"x,omitempty"`
	Y       int  `json:"y,omitempty"`
	Flipped bool `json:"flipped,omitempty"` // mirrored, left and right
	// Seek is the time of a keyframe at or before the first frame of the clip, and Origin the time of the first frame of the
	// file, both in microseconds of the file's clock. They save decoding and do not change frames. Seek is 0 if decoding starts
	// at the beginning of the file.
	Seek   int64 `json:"seek,omitempty"`
	Origin int64 `json:"origin,omitempty"`
}

// NullMark ends the id of a clip that the job made without its caption.
const NullMark = "#null"

// The values of Cut.Short: what follows the frames of a clip that is too short.
const (
	CutLoop = "loop" // the frames again, from the first
	CutPad  = "pad"  // the last frame again
)

// String returns everything that the frames depend on, as a text for digests.
func (c Cut) String() string {
	return fmt.Sprintf("%d+%d%s %s %dx%d%+d%+d flipped=%t", c.Start, c.Count, c.Short, c.Filter, c.ScaledWidth, c.ScaledHeight,
		c.X, c.Y, c.Flipped)
}

// Frame returns which frame of the media, counted from Start, is frame i of the clip.
func (c Cut) Frame(i int) int {
	switch {
	case i < c.Count:
		return i
	case c.Short == CutLoop:
		return i % c.Count
	}
	return c.Count - 1
}
