// Package diffuse is the stage `denoise`: it samples the latents of a batch with any diffusion network. It opens the
// network that the model's own config.json names (Family), starts from noise, asks a sampler for the steps (stages/sampler), guides
// by the text, puts given frames in, makes videos of several clips, and shares a batch over a set of devices, whose
// columns, heads and blocks it cuts. Whatever the set, the bytes are those of one device.
//
// A network lives in a package of its own, such as stages/stdit, and implements three small interfaces: Network is the
// opened model, Model its weights on a device, Batch some rows that are ready for the steps. No network knows of
// samplers, guidance, ranks or clips, and nothing here knows what a network does inside.
package diffuse
