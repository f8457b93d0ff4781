// Package diffuse is the stage `denoise`: it samples the latents of a batch with any network of stages/diffuse/dit. It opens the
// network that the model's own config.json names (dit.Family). It starts from noise, asks a sampler for the steps
// (stages/diffuse/sampler), guides by the text, puts given frames in and makes videos of several clips. It shares a batch over a
// set of devices by columns, heads and blocks. Whatever the set, the bytes are those of one device.
//
// A job is one batch under its sampler. What a rank samples of it is a portion: its shares (stages/diffuse/shares), or on one
// device whole elements. A maker leads jobs through the sampler, alone or as a rank: clip by clip (clips.go), one element
// at a time where images are given (image.go), several at once in a pipeline (pipeline.go).
//
// Two denoisers that take turns by the timestep (Wan 2.2 A14B) are the stage's matter too (experts.go):
// dit.Description.Boundary says when the second takes over.
package diffuse
