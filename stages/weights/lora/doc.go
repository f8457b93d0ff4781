// Package lora reads adapters of low rank (LoRA) and adds them to the weights of a model: W + sum of scale * alpha / rank *
// B A, in fp32 and in the order of the list, rounded once to the type that the model is loaded in.
//
// It reads safetensors with the names of diffusers, PEFT, Kohya's scripts and the model's original code. What an element
// becomes depends on its row and column alone, never on how the tensor is read: so weights that are cut, pass through
// memory or lie whole have the same bytes, and the arithmetic is plain Go, the same on every processor. Models never enter:
// how a model's tensors are called elsewhere is given (Names).
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package lora
