// Package wan is the denoiser of Wan (2.1 and 2.2, text and image to video) and of models of its class,
// diffusers' WanTransformer3DModel: blocks of attention over all tokens of a video, attention to the text and an MLP,
// modulated by the timestep.
//
// The reference is diffusers 0.42.1. Where the code that Wan was published with differs, diffusers is followed.
// A text is padded to its full length with zeros, and the padding is attended as the reference attends it. Queries and
// keys are normalised over all heads together, so that ranks which share the heads each compute all of them.
//
// In bf16 the timestep's embedding, the tables of modulation and the norms in front of them are computed in fp32, as in
// the reference.
//
// Images come in three ways: as the first frame with timestep 0 (TI2V), as latents of a clip beside the noisy latents
// (I2V), and as an embedding of CLIP attended beside the text (I2V of 2.1).
//
// What there is not yet is refused by name: fp16.
package wan
