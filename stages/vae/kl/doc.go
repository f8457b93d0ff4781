// Package kl holds the 2D autoencoder of Stable Diffusion, AutoencoderKL of diffusers, by its published tensor names: 8x8
// pixels to a latent position. Images are channels last, (N, H, W, C).
package kl
