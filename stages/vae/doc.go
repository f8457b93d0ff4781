// Package vae makes stages of autoencoders: decode_vae, encode_vae and those that encode what a row is conditioned on. It knows
// none by name: package autoencoder has the networks, and says which frames or rows of a clip devices can take each for
// itself. Here clips are read, shared out to devices and put together again. Video files never enter.
package vae
