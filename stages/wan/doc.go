// Package wan implements the denoiser of Wan (2.1 and 2.2, text and image to video) and of similar models, diffusers'
// WanTransformer3DModel. A block has attention over all tokens of a video, attention to the text and an MLP, modulated by the
// timestep.
//
// The reference is diffusers 0.42.1. If Wan's original code differs, this package follows diffusers. A text is padded to its
// full length with zeros, and attention includes the padding, as in the reference. Queries and keys are normalised over all
// heads together, so ranks that share the heads each compute the queries and keys of all heads.
//
// In bf16 the embedding of the timestep, the modulation tables and the norms before them are computed in fp32, as in the
// reference.
//
// Images are used in three ways: as the first frame with timestep 0 (TI2V), as latents of a clip beside the noisy latents
// (I2V), and as a CLIP embedding that is attended to like the text (I2V of 2.1).
//
// fp16 is not supported yet; the error says so.
package wan
