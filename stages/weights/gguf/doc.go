// Package gguf reads GGUF, the format of llama.cpp and ComfyUI-GGUF: a header, key-value pairs, a list of tensors, then their
// data (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Tensors in blocks of 4 to 8 bits are widened when they are
// read, with the same bits as the Python package gguf.
//
// A checkpoint is untrusted input: everything in the header is checked before it is used, and memory is limited by the file's
// size. The package does not know models: names of tensors are in the packages of the models. To add a type of block, add a
// line in types.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package gguf
