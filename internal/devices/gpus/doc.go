// Package gpus is the pool of the GPUs of this host: which of them a job may have (free, well, of one numeric
// class, claimed by no other process), sets by how they are linked, and what happens to them meanwhile. A device
// that falls ill is drained: its batch is done again elsewhere, and it is not lent any more.
//
// What computes comes in as a Maker (kernels/cuda), what the driver knows as a gpu.Host; both have fakes. No
// model, no CUDA and nothing of Beam may enter. What is measured goes into Facts and never into a decision about
// bytes.
package gpus
