// Package gpus implements the pool of the GPUs of this host. It chooses the devices that a job may use (free, healthy,
// of one numeric class, claimed by no other process), forms sets by links, and watches the devices. A device that
// fails is drained: its batch is repeated elsewhere, and the device is not lent again.
//
// A Maker (kernels/cuda) opens devices, and an nvml.Host describes them; both have fakes. The package must not import
// models, CUDA or Beam. Measurements only go into Facts and never decide about
// results.
package gpus
