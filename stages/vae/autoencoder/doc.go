// Package autoencoder makes one Model of the autoencoders of all families; config.json says which one it is. The networks have
// rooms of their own, by their published tensor names: AutoencoderKL (stages/vae/kl), that over time of Open-Sora 1.2
// (temporal), those of Open-Sora 1.3 (opensora13), of Open-Sora-Plan 1.2 (causal) and 1.3 (wf), and of Wan (wan).
//
// A clip becomes latents (the mean or a sample of their distribution) and latents become pixels, group by
// group of frames, so that memory does not grow with the clip; groups do not see each other. Those of Wan and
// Open-Sora-Plan 1.3 have one group, which goes through in chunks; devices can share its rows (DecodeBand, EncodeBand).
// Inside, images and videos are channels last, (N, T, H, W, C). What stages ask of an autoencoder beside that is data
// (Traits). One more autoencoder is an architecture of its own file and its line in ParseConfig.
package autoencoder
