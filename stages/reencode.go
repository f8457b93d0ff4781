package stages

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
)

// Reencoder takes the end of a clip through its frames and back to latents, from which the next clip of a longer
// video goes on. The autoencoder is one; the denoiser, which makes the clips, gets it from the catalogue.
type Reencoder interface {
	// Digest names its weights by content.
	Digest() string
	// Check says why clips of the row cannot go on from their last length latent frames.
	Check(row *schemas.PromptRow, length int) error
	// Need is the device memory of one clip in bytes, without weights.
	Need(row *schemas.PromptRow) (int64, error)
	// Reencode returns the last length latent frames of clip number clip (C, T, H, W), encoded anew.
	Reencode(ctx context.Context, dev kernels.Backend, row *schemas.PromptRow, latents *Array,
		clip, length int) (*Array, error)
}

// OpenReencoder opens the Reencoder of a model.
type OpenReencoder func(m *Model) (Reencoder, error)
