// Package sampler holds the diffusion samplers: the tables, the step, classifier-free guidance, given frames
// and the loop. It knows no model and no device: the network is a function on host slices, and so is the noise,
// so that production draws it from a counter and parity runs feed it from elsewhere.
//
// A new sampler is a new file with its own type, and how a published model uses it an entry of recipes.
// Tensors and weights never enter.
package sampler
