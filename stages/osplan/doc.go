// Package osplan is the denoiser of Open-Sora-Plan, text to video: OpenSoraT2V of version 1.2 (ROPE-L/122) and
// OpenSoraT2V_v1_3. Both are blocks of attention over all tokens of a video with rotary positions of three axes,
// attention to the text on the raw stream, and an MLP, modulated by the timestep.
//
// Version 1.3 has sparse blocks (skiparse, sparse.go): all but the first two and what lies behind block 29 deal their
// tokens out to four sub-sequences, single tokens in even blocks and groups of four in odd ones.
//
// The reference is the project's own code at the tags v1.2.0 and v1.3.1. It carries masks as a bias of -10000 for each
// key. Here a mask is taken away with the tokens that it hides: a text has the length that it has, and a video in a
// larger box is a sequence.Mask (dit.Description.Box).
//
// In bf16 the angles of the positions are rounded before the cosine is taken, and in version 1.3 the timestep too, as in
// the reference.
//
// What there is not is refused by name: inpainting and image to video (OpenSoraInpaint), LatteT2V of versions 1.0 and
// 1.1, UDiT, token down-samplers, SparseUMMDiT of version 1.5, and fp16.
package osplan
