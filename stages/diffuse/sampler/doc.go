// Package sampler implements the diffusion samplers: the tables, the step, classifier-free guidance, given frames and the loop.
// It does not know models or devices. The network is a function on host slices. The noise is a function too: in production it
// comes from a counter, in tests from the reference.
//
// A new sampler is a new file with its own type. An entry in recipes says how a published model uses it.
package sampler
