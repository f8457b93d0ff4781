// Package vae makes stages of autoencoders: decode_vae, encode_vae and those that encode what a row is conditioned on. The
// networks have rooms of their own, by their published tensor names: AutoencoderKL (stages/vae/kl), that over time of
// Open-Sora 1.2 (temporal), those of Open-Sora 1.3 and Open-Sora-Plan 1.2 (causal), of Open-Sora-Plan 1.3 (wf) and of
// Wan (wan). kl.go, pipeline.go, causal.go and streamed.go make them one thing here; config.json says which a model has.
//
// A clip becomes latents (the mean or a sample of their distribution) and latents become pixels, group by
// group of frames, so that memory does not grow with the clip; groups do not see each other. Those of Wan and
// Open-Sora-Plan 1.3 have one group, which goes through in chunks; sets share its rows (rows.go), and of other
// autoencoders the groups. Inside, images and videos are channels last, (N, T, H, W, C). Video files and the scaling of
// latents for a denoiser never enter. One more autoencoder is an architecture of its own files and its line in ParseConfig.
package vae
