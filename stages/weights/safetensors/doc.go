// Package safetensors reads and writes the safetensors format: an 8-byte little-endian header length, a
// JSON header that names each tensor's dtype, shape and byte range, then the bytes
// (https://github.com/huggingface/safetensors, section Format).
//
// A checkpoint is untrusted input: everything in the header is checked before it is used, memory is limited by the header's
// size, and nothing in a file can be executed. Large checkpoints consist of shards with a list of their tensors,
// model.safetensors.index.json (OpenIndex). The package contains no models and no arithmetic, and does not read pickles. To add
// a dtype, add a line in dtypeSizes.
package safetensors
