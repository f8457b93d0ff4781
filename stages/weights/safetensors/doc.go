// Package safetensors reads and writes the safetensors format: an 8-byte little-endian header length, a
// JSON header that names each tensor's dtype, shape and byte range, then the bytes
// (https://github.com/huggingface/safetensors, section Format).
//
// A checkpoint is untrusted input: everything the header says is checked before it is used, memory is
// bounded by the header's size, and nothing in a file can be executed. Large checkpoints come in shards with
// a list of their tensors, model.safetensors.index.json (OpenIndex). No model and no arithmetic lives here;
// pickles never enter. A new dtype is one line in dtypeSizes.
package safetensors
