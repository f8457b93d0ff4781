// Package vae has the autoencoders of all families and the stages that they make: decode_vae, encode_vae, and the stages
// that encode given frames.
//
// Model is one face for all networks; config.json says which network it is. The networks have packages of their own, by
// their published tensor names: AutoencoderKL (kl), Open-Sora 1.2 (opensora/temporal) and 1.3 (opensora/v13),
// Open-Sora-Plan 1.2 (osplan/causal) and 1.3 (osplan/wf), and Wan (wan). A clip becomes latents (the mean or a sample of
// their distribution) and latents become pixels, group by group of frames, so that memory does not grow with the clip;
// groups do not see each other. Wan and Open-Sora-Plan 1.3 have one group, which goes through in chunks; devices can share
// its rows (DecodeBand, EncodeBand). Inside, images and videos are channels last, (N, T, H, W, C). Other abilities of an
// autoencoder are data (Traits). A new autoencoder is an architecture in its own file and its line in ParseConfig.
//
// The stages read clips, share them out to devices and put the results together. Footage opens the frames of the media that
// an element names, as its row cuts and sizes them. Video files are never encoded here.
package vae
