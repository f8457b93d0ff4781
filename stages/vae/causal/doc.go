// Package causal holds two autoencoders that are causal over time and whose norms reach over groups of frames, by their
// published tensor names: those of Open-Sora 1.3 (opensora*.go) and of Open-Sora-Plan 1.2.
//
// The latter, CausalVAEModel, is that of Stable Diffusion with causal convolutions over time, 4 channels, 4 frames and 8x8 pixels to a latent position.
// Convolutions over time have copies of the first frame in front.
//
// The statistics of its norms reach over all frames that are computed together. So groups of 29 frames are the law here:
// a group begins with the last frame of the one before it, and what becomes of that frame is dropped. That is what the
// reference (tag v1.2.0) computes with its published scripts (tile_sample_min_size_t 29), as far as time goes; up to 29
// frames it is what the reference computes without tiling too. Its scripts also cut frames with a side of more than 512
// pixels into tiles, whose edges they blend; here frames are whole.
//
// Videos are channels last, (1, T, H, W, C). The scale of latents, posteriors and files never enter.
package causal
