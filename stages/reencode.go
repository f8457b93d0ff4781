package stages

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
)

// Reencoder decodes the end of a clip to frames and encodes them again. The next clip of a longer video continues from these
// latents. The autoencoder implements it; the catalogue hands it to the denoiser, which makes the clips.
type Reencoder interface {
	// Digest returns a digest of its weights.
	Digest() string
	// Check returns an error if clips of the row cannot continue from their last length latent frames.
	Check(row *schemas.PromptRow, length int) error
	// Need returns the device memory for one clip in bytes, without weights.
	Need(row *schemas.PromptRow) (int64, error)
	// Reencode returns the last length latent frames of clip number clip (C, T, H, W), encoded again.
	Reencode(ctx context.Context, dev kernels.Backend, row *schemas.PromptRow, latents *Array,
		clip, length int) (*Array, error)
}

// OpenReencoder opens the Reencoder of a model.
type OpenReencoder func(m *Model) (Reencoder, error)
