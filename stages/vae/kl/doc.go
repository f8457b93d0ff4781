// Package kl implements the 2D autoencoder of Stable Diffusion, AutoencoderKL of diffusers, with its published tensor names. A
// latent position is 8x8 pixels. Images are channels last, (N, H, W, C).
package kl
