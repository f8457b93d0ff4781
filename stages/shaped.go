package stages

import (
	"fmt"
	"slices"

	"latentbeam/schemas"
)

// LatentShape returns the shape (C, T, H, W) of the latents of one clip of a row.
type LatentShape func(row *schemas.PromptRow) ([]int, error)

// SameLatents returns an error if two stages expect different latent shapes for a row that both can process.
func SameLatents(row *schemas.PromptRow, name string, a LatentShape, other string, b LatentShape) error {
	one, err := a(row)
	if err != nil {
		return err
	}
	two, err := b(row)
	if err != nil || slices.Equal(one, two) {
		return err
	}
	return fmt.Errorf("num_frames is %d, height %d and width %d: %s has latents of shape %v for that (channels, frames, "+
		"height, width), %s of %v: the autoencoder is not that of the denoiser", row.NumFrames, row.Height, row.Width,
		name, one, other, two)
}
