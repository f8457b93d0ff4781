// Package osplan implements the denoisers of Open-Sora-Plan, text to video: OpenSoraT2V of version 1.2 (ROPE-L/122) and
// OpenSoraT2V_v1_3. A block has attention over all tokens of a video with rotary positions of three axes, attention to the text
// on the raw stream, and an MLP, modulated by the timestep.
//
// Version 1.3 has sparse blocks (skiparse): all blocks except the first two and those after block 29 divide their tokens into
// four sub-sequences. Even blocks divide single tokens, odd blocks divide groups of four.
//
// The reference is the project's own code at the tags v1.2.0 and v1.3.1. It implements masks as a bias of -10000 for each key.
// This package removes masked tokens instead: a text has its own length, and a video in a larger box has a sequence.Mask
// (dit.Description.Box).
//
// In bf16 the angles of the positions are rounded before the cosine is computed, and in version 1.3 the timestep is rounded
// too, as in the reference.
//
// Not supported, with an error that says so: inpainting and image to video (OpenSoraInpaint), LatteT2V of versions 1.0 and 1.1,
// UDiT, token down-samplers, SparseUMMDiT of version 1.5, and fp16.
package osplan
