// Package torchpickle reads the tensors of a PyTorch checkpoint (.pth, .pt, .bin), in the zip format of torch 1.6 and later and
// in the older format, without executing the pickle's code. The few classes of a state dict are built in (classes.go); any
// other class is an error that names it.
//
// A checkpoint is untrusted input. Nothing is executed, lengths are checked before they are used, no function recurses on the
// input, and memory is limited by the pickle's size, not by its claims. The data of tensors is not copied. The package opens no
// files and knows no models. To support one more class, add a line to classes, with a function that only builds values.
//
// The pickle sub-package of github.com/nlpodyssey/gopickle v0.3.0 was considered first. But it allocates whatever length a
// frame or string claims, and it builds some classes before its FindClass hook is called.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package torchpickle
