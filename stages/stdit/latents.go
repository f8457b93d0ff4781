package stdit

import (
	"fmt"

	"latentbeam/schemas"
	"latentbeam/stages/diffuse/dit"
)

// vaeStride is the number of pixels for one latent position, in height and width.
const vaeStride = 8

// latentSize returns the size of a row's latents for the version's autoencoder.
func (c Config) latentSize(row *schemas.PromptRow) dit.LatentSize {
	n := row.NumFrames
	s := dit.LatentSize{T: n, H: row.Height / vaeStride, W: row.Width / vaeStride}
	switch c.Version {
	case OpenSora12: // 5 latent frames for each 17 frames, and one for each 4 of the rest
		s.T = n/17*5 + (n%17+3)/4
	case OpenSora13: // 5 latent frames for each 17 frames, which overlap by one; sizes are rounded up
		s.T = (n - 1) / 16 * 5
		if n == 1 {
			s.T = 1
		}
		s.H, s.W = (row.Height+vaeStride-1)/vaeStride, (row.Width+vaeStride-1)/vaeStride
	}
	return s
}

// checkSize returns an error for sizes without latents, and in 1.0, which does not pad, for sizes that are not whole patches.
func (c Config) checkSize(row *schemas.PromptRow) error {
	for _, d := range []struct {
		name         string
		value, steps int
	}{
		{"height", row.Height, vaeStride * c.PatchSize[1]},
		{"width", row.Width, vaeStride * c.PatchSize[2]},
		{"num_frames", row.NumFrames, c.PatchSize[0]},
	} {
		if c.Version == OpenSora10 && (d.value < d.steps || d.value%d.steps != 0) {
			near := max(d.steps, (d.value+d.steps/2)/d.steps*d.steps)
			return fmt.Errorf("%s is %d: give a multiple of %d, such as %d", d.name, d.value, d.steps, near)
		}
	}
	if row.Height < vaeStride || row.Width < vaeStride {
		return fmt.Errorf("height is %d and width %d: give %d or more", row.Height, row.Width, vaeStride)
	}
	switch s := c.latentSize(row); {
	case s.T < 1:
		return fmt.Errorf("num_frames is %d: Open-Sora %s makes 1 frame, or 17 and more", row.NumFrames, c.Version)
	case max(s.T, s.H, s.W) > MaxLatentSide:
		return fmt.Errorf("%d frames of %dx%d are too large: latents of %dx%dx%d, at most %d each",
			row.NumFrames, row.Width, row.Height, s.T, s.H, s.W, MaxLatentSide)
	}
	return nil
}
