// Package causal holds the autoencoder of Open-Sora-Plan 1.2, CausalVAEModel, by its published tensor names. It is that of
// Stable Diffusion with causal convolutions over time, 4 channels, 4 frames and 8x8 pixels to a latent position.
// Convolutions over time have copies of the first frame in front.
//
// The statistics of its norms reach over all frames that are computed together. So groups of 29 frames are the law here:
// each group takes in the last frame of the group before once more, and its second result for that frame is dropped. The
// published scripts of the reference (tag v1.2.0, tile_sample_min_size_t 29) do the same over time. Up to 29 frames the
// reference gives the same without tiling too. Its scripts also cut frames with a side of more than 512 pixels into
// tiles and blend their edges; here frames are whole.
//
// Videos are channels last, (1, T, H, W, C). The scale of latents, posteriors and files never enter.
package causal
