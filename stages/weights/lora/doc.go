// Package lora reads low-rank adapters (LoRA) and adds them to the weights of a model: W + sum of scale * alpha / rank * B A,
// in fp32 and in the order of the list, rounded once to the type in which the model is loaded.
//
// It reads safetensors with the names of diffusers, PEFT, Kohya's scripts and the model's original code. The value of an
// element depends only on its row and column, not on how the tensor is read. So weights that are split, streamed or whole have
// the same bytes. The arithmetic is plain Go and the same on every processor. The package does not know models: the caller
// provides the other names of a model's tensors (Names).
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package lora
