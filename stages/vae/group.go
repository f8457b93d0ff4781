package vae

import (
	"errors"
	"fmt"

	"latentbeam/kernels"
)

// Grouping is how many frames are decoded without a look at others, their latent frames, and how many frames
// neighbouring groups share.
type Grouping struct {
	Frames, Latents, Overlap int
	Dropped                  bool // groups also share a latent frame, and what the later one makes of it is dropped
	Joined                   bool // several clips of a video are decoded as one long clip
}

// Of returns how many groups so many frames are.
func (g Grouping) Of(frames int) int {
	stride := g.Frames - g.Overlap
	return max(1, (frames-g.Overlap+stride-1)/stride)
}

// FramesOf returns how many frames the last length latent frames of a clip of frames are made of. They have to be whole
// groups.
func (c Config) FramesOf(length, frames int) (int, error) {
	g := c.Group
	switch {
	case c.Banded || g.Dropped:
		return 0, errors.New("frames are not encoded in groups, so no clip can go on from the last of them")
	case length%g.Latents != 0 || g.Joined && length < 1:
		return 0, fmt.Errorf("condition_frame_length is %d: give a multiple of %d, the latent frames of a group",
			length, g.Latents)
	case !g.Joined && frames%g.Frames != 0:
		return 0, fmt.Errorf("num_frames is %d: clips that go on have a multiple of %d", frames, g.Frames)
	}
	return length/g.Latents*(g.Frames-g.Overlap) + g.Overlap, nil
}

// Meet makes of the last frame of a group and the first of the next the one frame that they are. The result is in last.
func Meet(dt kernels.DType, last, first []float32) {
	for i, v := range first {
		last[i] = dt.Round(last[i]+v) / 2
	}
}
