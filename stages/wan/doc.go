// Package wan is the denoiser of Wan text to video (2.1 1.3B and 14B, 2.2 A14B and TI2V-5B) and of models of its class,
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
// What there is not yet is refused by name: image conditions (I2V), timesteps of single tokens (TI2V image to video), and
// fp16.
package wan
