// Package vae has the autoencoders of all families and their stages: decode_vae, encode_vae, and the stages that encode given
// frames.
//
// Model is one interface for all networks; config.json says which network it is. Each network has its own package and uses its
// published tensor names: AutoencoderKL (kl), Open-Sora 1.2 (opensora/temporal) and 1.3 (opensora/v13), Open-Sora-Plan 1.2
// (osplan/causal) and 1.3 (osplan/wf), and Wan (wan). Encoding turns a clip into latents (the mean or a sample of their
// distribution), decoding turns latents into pixels. Both work group by group of frames, so that memory does not grow with the
// clip; groups do not depend on each other. Wan and Open-Sora-Plan 1.3 have a single group that is processed in chunks, and
// devices can share its rows (DecodeBand, EncodeBand). Inside, images and videos are channels last, (N, T, H, W, C). Traits
// describes other differences. To add an autoencoder, write an architecture in its own file and add a line to ParseConfig.
//
// The stages read clips, share them between devices and join the results. Footage opens the frames of an element's media, cut
// and resized for its row. This package does not encode video files.
package vae
