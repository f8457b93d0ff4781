// Package wan holds the autoencoders of Wan 2.1 (16 channels, 4x8x8) and of Wan 2.2's TI2V-5B (48 channels,
// 4x16x16), AutoencoderKLWan of diffusers, by their published tensor names.
//
// Both are causal in time: frame n depends on frames up to n alone. A clip goes through in chunks, first one frame,
// then one latent frame or four frames at a time, and every convolution over time remembers the last frames that it
// saw. So memory does not grow with the clip, and the result is that of the whole sequence at once. Several devices
// decode a clip by bands of rows: a convolution gets the rows next to its band from its neighbours.
//
// The reference is diffusers 0.42.1. Its laws of time, for a whole sequence: a convolution over time has zero frames in
// front. A halving of frames leaves the first frame as it is. A doubling lets the first frame through alone, and later
// ones see zeros in its place.
//
// Videos are channels last, (1, T, H, W, C). Means and deviations of latents, posteriors and files never enter.
package wan
