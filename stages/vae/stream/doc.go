// Package stream runs a clip through causal convolutions chunk by chunk. A Stream remembers the last frames that each
// convolution saw. So memory does not grow with the clip, and the result does not depend on the chunks. The package also has
// the common parts of such networks: how they are read, residual blocks, and the chunks of a clip.
//
// The ranks of a group may share the rows of every frame (Bands). Each rank then has some rows of all frames, and receives from
// its neighbours the edge rows that a convolution sees. Images and videos are channels last, (N, T, H, W, C).
package stream
