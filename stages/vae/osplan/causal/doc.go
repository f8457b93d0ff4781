// Package causal implements the autoencoder of Open-Sora-Plan 1.2, CausalVAEModel, with its published tensor names. It is
// Stable Diffusion's autoencoder with causal convolutions over time: 4 channels; a latent position is 4 frames and 8x8 pixels.
// Convolutions over time have copies of the first frame at the front.
//
// The norms compute their statistics over all frames that are computed together. So the size of a group changes values. This
// package uses groups of 29 frames: each group contains the last frame of the group before again, and its second result for
// that frame is dropped. The reference's published scripts (tag v1.2.0, tile_sample_min_size_t 29) do the same over time. Up to
// 29 frames the reference also gives the same result without tiling. Its scripts also divide frames with a side of more than
// 512 pixels into tiles and blend their edges; this package does not.
//
// Videos are channels last, (1, T, H, W, C). The package does not handle the scale of latents, posteriors or files.
package causal
