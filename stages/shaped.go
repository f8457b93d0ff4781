package stages

import (
	"fmt"
	"slices"

	"latentbeam/schemas"
)

// Shaped is what a Stage also is that makes, takes or conditions on latents: a denoiser and an autoencoder that
// were not made for each other are told by the shapes that they give the same row.
type Shaped interface {
	// LatentShape returns the shape (C, T, H, W) of the latents of one clip of the row. Check has passed.
	LatentShape(row *schemas.PromptRow) ([]int, error)
}

// SameLatents compares the latents that two stages have for a row that both can do.
func SameLatents(row *schemas.PromptRow, name string, a Shaped, other string, b Shaped) error {
	one, err := a.LatentShape(row)
	if err != nil {
		return err
	}
	two, err := b.LatentShape(row)
	if err != nil || slices.Equal(one, two) {
		return err
	}
	return fmt.Errorf("num_frames is %d, height %d and width %d: %s has latents of shape %v for that (channels, frames, "+
		"height, width), %s of %v: the autoencoder is not that of the denoiser", row.NumFrames, row.Height, row.Width,
		name, one, other, two)
}
