package stages

import (
	"context"
	"time"

	"latentbeam/schemas"
)

// Steps is how far the sampling of a row has come. Any set of devices of the same numeric class goes on from it to the
// same bytes, in any batch.
type Steps struct {
	Clip    int    // number of the clip that is sampled, from 0
	Done    int    // its steps that are done; 0: it has not begun
	Sampler string // signature of the sampler; "" where Done is 0
	Latents *Array // (C, T, H, W) behind these steps; nil where Done is 0
	Memory  []Remembered
	Clips   []*Array // the latents of the clips before
	// Readings are the element's behind the clips before, or where Sampled behind all.
	Readings map[string]string

	// Sampled says that all is done: Latents are the stage's result, of all clips, and Scale is their Element.LatentScale. The
	// engine alone takes such steps: a stage does not get them.
	Sampled bool
	Scale   float64
}

// Remembered is what a sampler hands from step to step beside the latents, in their shape.
type Remembered struct {
	Name   string
	Values *Array
}

// Count returns how many steps are done, those of the clips before at so many each.
func (s *Steps) Count(each int) int { return s.Clip*each + s.Done }

// Saving says how often the steps of a batch are saved, and where.
type Saving struct {
	// Every is the work between two times; 0: behind each step.
	Every time.Duration
	// Stopping is canceled when the process is to end soon, which may kill it: from then on the newest steps are saved at once, and
	// nobody waits for the next. Nil: nobody says so.
	Stopping context.Context
	// Save keeps the steps of some rows, by their keys. It is called beside the sampling, once at a time. What it is given
	// is not changed any more.
	Save func(ctx context.Context, rows []Saved)
}

// Saved is the steps of one row.
type Saved struct {
	Key schemas.Key
	Steps
}
