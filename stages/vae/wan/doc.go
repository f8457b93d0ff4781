// Package wan implements the autoencoders of Wan 2.1 (16 channels, 4x8x8) and of Wan 2.2's TI2V-5B (48 channels, 4x16x16),
// AutoencoderKLWan of diffusers, with their published tensor names.
//
// Both are causal in time: frame n depends only on frames up to n. A clip is processed in chunks: first one frame, then one
// latent frame or four frames at a time. Every convolution over time remembers the last frames that it saw. So memory does not
// grow with the clip, and the result is the same as for the whole sequence at once. Several devices can decode a clip by bands
// of rows; a convolution gets the rows next to its band from the neighbouring devices.
//
// The reference is diffusers 0.42.1. Its rules for time, for a whole sequence: a convolution over time has zero frames at the
// front. A halving of frames does not change the first frame. A doubling does not double the first frame, and later frames see
// zeros in its place.
//
// Videos are channels last, (1, T, H, W, C). The package does not handle means and deviations of latents, posteriors or files.
package wan
