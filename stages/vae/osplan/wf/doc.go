// Package wf implements the autoencoder of Open-Sora-Plan 1.3, WFVAEModel (arXiv:2411.17459), with its published tensor names:
// 8, 16 or 32 latent channels; a latent position is 4 frames and 8x8 pixels.
//
// Haar transforms halve frames, height and width once before the network and twice beside it. The low-frequency bands bypass
// its levels (connect_l1, connect_l2). Convolutions over time have copies of the first frame at the front. Doubling the frames
// interpolates between neighbours, so the last frames of a clip must wait for the next latent frame. Decoding emits 1 frame for
// the first latent frame, then 2, then 4 for each, and 2 at the end.
//
// The result is the result for a whole clip at once, computed with a constant number of frames in memory. The reference (tag
// v1.3.1) computes the same without tiling. Its decoding in chunks (enable_tiling) is the same except for 2, 6, 10, ... latent
// frames, where its last chunk has lost its cached frames: with 6, 10, 14 (21, 37, 53 frames) its last frames are wrong, and
// with 2 (5 frames) it stops with an error.
//
// Videos are channels last, (1, T, H, W, C). The package does not handle scale and shift of latents, posteriors or files.
package wf
