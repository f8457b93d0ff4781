package stages

import (
	"context"
	"time"

	"latentbeam/schemas"
)

// Steps is the saved progress of sampling a row. Any set of devices of the same numeric class can continue from it, in any
// batch, and gets the same bytes.
type Steps struct {
	Clip    int    // number of the clip that is sampled, from 0
	Done    int    // finished steps of this clip
	Sampler string // signature of the sampler; "" if Done is 0
	Latents *Array // (C, T, H, W) after these steps; nil if Done is 0
	Memory  []Remembered
	Clips   []*Array // latents of the finished clips
	// Readings are the element's readings after the finished clips, or after all clips if Sampled.
	Readings map[string]string

	// Sampled says that sampling is complete: Latents are the stage's result for all clips, and Scale is their
	// Element.LatentScale. Only the engine handles such steps; stages do not see them.
	Sampled bool
	Scale   float64
}

// Remembered is a tensor that a sampler passes from step to step besides the latents. It has the shape of the latents.
type Remembered struct {
	Name   string
	Values *Array
}

// Count returns the number of finished steps, with each steps for every finished clip.
func (s *Steps) Count(each int) int { return s.Clip*each + s.Done }

// Saving says how often and where the steps of a batch are saved.
type Saving struct {
	// Every is the least work between two saves; 0: save after each step.
	Every time.Duration
	// Stopping is cancelled when the process is to stop soon and may be killed. From then on the newest steps are saved at
	// once, without waiting for Every. Nil: it never is.
	Stopping context.Context
	// Save saves the steps of some rows, by their keys. It runs concurrently with the sampling, one call at a time. Its
	// arguments are not modified later.
	Save func(ctx context.Context, rows []Saved)
}

// Saved is the steps of one row.
type Saved struct {
	Key schemas.Key
	Steps
}
