// Package stream takes a clip through causal convolutions chunk by chunk. A Stream remembers the last frames that each
// convolution saw, so memory does not grow with the clip, and no chunk can be seen in the result. What the networks that go
// through it have in common is here too: how they are read, residual blocks, the chunks of a clip.
//
// The ranks of a group may share the rows of every frame (Bands). Each rank then holds rows of all frames, and asks its
// neighbours for the rows at the edges that a convolution sees. Images and videos are channels last, (N, T, H, W, C).
package stream
