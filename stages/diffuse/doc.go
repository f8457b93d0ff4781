// Package diffuse is the stage `denoise`. It samples the latents of a batch with any network of stages/diffuse/dit; dit.Family
// finds the network from the model's config.json. Sampling starts from noise and takes the steps of a sampler
// (stages/diffuse/sampler), with guidance by the text, given frames and videos of several clips. A set of devices shares a
// batch by columns, heads and blocks. The result has the same bytes for every set.
//
// A job is one batch with its sampler. The part that one rank samples is a portion: its shares (stages/diffuse/shares), or
// whole elements on a single device. A maker runs jobs, alone or as a rank of a set: clip by clip (clips.go), one element at a
// time if images are given (image.go), or several jobs at once in a pipeline (pipeline.go).
//
// The stage also handles models with two denoisers that divide the timesteps (Wan 2.2 A14B, experts.go).
// dit.Description.Boundary says when the second one takes over.
package diffuse
