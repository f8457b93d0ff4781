// Package wf holds the autoencoder of Open-Sora-Plan 1.3, WFVAEModel (arXiv:2411.17459), by its published tensor names: 8,
// 16 or 32 latent channels, 4 frames and 8x8 pixels to a latent position.
//
// Haar transforms halve frames, height and width once before the network and twice beside it. The bands of low
// frequencies flow around its levels (connect_l1, connect_l2). Convolutions over time have copies of the first frame in
// front. A doubling of frames interpolates between neighbours, so the last frames of a clip wait for the latent frame
// behind them: decoding latent frame by latent frame emits 1 frame, then 2, then 4 each, and 2 at the end.
//
// The law here is that of a whole clip at once, computed with a constant number of frames in memory. The reference
// (tag v1.3.1) computes the same without tiling. Its decoding in chunks (enable_tiling) is the same too but where the
// latent frames are 2, 6, 10 and so on: then its last chunk has lost what it should remember. With 6, 10, 14 (21, 37,
// 53 frames) the last frames are wrong, and with 2 (5 frames) it stops with an error.
//
// Videos are channels last, (1, T, H, W, C). Scale and shift of latents, posteriors and files never enter.
package wf
