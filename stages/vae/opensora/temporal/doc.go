// Package temporal implements VAE_Temporal of Open-Sora 1.2, an autoencoder over time only, with its published tensor names.
// Its input are the latents of a 2D autoencoder; 4 frames become one latent frame. Videos are channels last, (1, T, h, w, C).
package temporal
