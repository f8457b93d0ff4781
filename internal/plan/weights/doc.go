// Package weights plans where the weights of a model lie when one device cannot hold them: contiguous blocks over
// devices, blocks streamed through two buffers, and the cuts of tensor parallelism, which fall where a sum has a border
// with one worker too.
//
// It knows sizes, no tensor, device or file.
package weights
