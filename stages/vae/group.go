package vae

import (
	"errors"
	"fmt"

	"latentbeam/kernels"
)

// Grouping describes the groups that are decoded independently: their frames, their latent frames, and the number of frames
// that adjacent groups share.
type Grouping struct {
	Frames, Latents, Overlap int
	Dropped                  bool // groups also share a latent frame; its frame in the later group is dropped
	Joined                   bool // the clips of a video are decoded as one long clip
}

// Of returns the number of groups for a number of frames.
func (g Grouping) Of(frames int) int {
	stride := g.Frames - g.Overlap
	return max(1, (frames-g.Overlap+stride-1)/stride)
}

// FramesOf returns the number of frames that the last length latent frames of a clip decode to. They must be whole groups.
func (c Config) FramesOf(length, frames int) (int, error) {
	g := c.Group
	switch {
	case c.Banded || g.Dropped:
		return 0, errors.New("this autoencoder does not decode groups of frames independently, so no clip can continue from the last group")
	case length%g.Latents != 0 || g.Joined && length < 1:
		return 0, fmt.Errorf("condition_frame_length is %d: give a multiple of %d, the latent frames of a group",
			length, g.Latents)
	case !g.Joined && frames%g.Frames != 0:
		return 0, fmt.Errorf("num_frames is %d: clips that continue need a multiple of %d", frames, g.Frames)
	}
	return length/g.Latents*(g.Frames-g.Overlap) + g.Overlap, nil
}

// AverageFrames averages the last frame of a group and the first frame of the next group, which are the same frame of the video. The
// result is stored in last.
func AverageFrames(dt kernels.DType, last, first []float32) {
	for i, v := range first {
		last[i] = dt.Round(last[i]+v) / 2
	}
}
