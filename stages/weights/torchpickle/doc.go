// Package torchpickle reads the tensors of a PyTorch checkpoint (.pth, .pt, .bin), in the zip format of
// torch 1.6 on and in the one before, without running what the pickle in it asks for: the few classes that
// a state dict consists of are built in (classes.go), any other is an error that names it.
//
// A checkpoint is untrusted input. Nothing is executed, lengths are checked before they are believed, no
// reading recurses, and memory is bounded by the pickle's size, never by what it claims. The bytes of
// tensors stay where they are. No files are opened here and no model is known; to let one more class in,
// add its line to classes, with a function that only puts values together.
//
// The pickle sub-package of github.com/nlpodyssey/gopickle v0.3.0 was weighed first: it allocates whatever
// length a frame or string claims, and builds some classes before its FindClass hook is asked.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package torchpickle
