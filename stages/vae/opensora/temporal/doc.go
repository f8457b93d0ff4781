// Package temporal holds VAE_Temporal of Open-Sora 1.2, an autoencoder over time alone, by its published tensor names. It
// takes the latents of a 2D autoencoder as its pictures, 4 frames to a latent frame. Videos are channels last, (1, T, h, w, C).
package temporal
