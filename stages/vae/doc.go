// Package vae is the 2D autoencoder of Stable Diffusion (AutoencoderKL, arXiv:2112.10752) that Open-Sora
// 1.0 runs on every frame, by the tensor names of diffusers.
//
// Latents become pixels and pixels the mean of latents, one frame at a time; frames of a video are the
// batch. Inside, images are channels last (N, H, W, C). Video files, the scaling of latents over time and
// temporal autoencoders never enter: the latter would be a package of their own.
package vae
