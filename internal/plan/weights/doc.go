// Package weights plans where the weights of a model lie when one device cannot hold them: the placement of
// accelerate's device_map="auto", a better one of contiguous blocks, blocks streamed through two buffers, and
// the cuts of tensor parallelism, which fall where a sum has a border with one worker too.
//
// It knows names and sizes, no tensor, device or file. Another way to place is another function beside Place.
package weights
