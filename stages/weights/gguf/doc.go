// Package gguf reads GGUF, the format of llama.cpp and of ComfyUI-GGUF: a header, pairs of a key and a value, a list of tensors,
// then their bytes (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Tensors in blocks of 4 to 8 bits are widened when
// they are read, bit for bit as the Python package gguf does.
//
// A checkpoint is untrusted input: everything that the header says is checked before it is used, and memory is bounded by the
// file's size. No model lives here: names of tensors are in the packages of the models. A new type of block is a line in types.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package gguf
