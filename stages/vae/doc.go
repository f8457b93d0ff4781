// Package vae holds the autoencoders of Open-Sora 1.x, by their published tensor names: the 2D one of Stable
// Diffusion (AutoencoderKL, kl*.go), the pipeline of Open-Sora 1.2 that puts one over time behind it
// (pipeline.go, temporal*.go) and the causal 3D one of Open-Sora 1.3 (causal*.go). Those of Wan have a room of their
// own, stages/vae/wan, which wan*.go makes one of these. Which one a model has, its config.json says.
//
// A clip becomes latents (the mean or a sample of their distribution) and latents become pixels, group by
// group of frames, so that memory does not grow with the clip; groups do not see each other. Those of Wan have one
// group, which goes through in chunks; sets share its rows (rows.go), and of other autoencoders the groups. Inside, images
// and videos are channels last, (N, T, H, W, C). Video files and the scaling of latents for a denoiser never
// enter. One more autoencoder is an architecture of its own files and its line in ParseConfig.
package vae
