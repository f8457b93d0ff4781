// Package nvml describes the GPUs of a machine through NVIDIA's driver (NVML): devices, links, status and
// events. It chooses sets of devices with fast links (topology), decides what to do about an event (the XID
// catalogue), and prevents two processes from using the same device (claims).
//
// It computes nothing on a device and does not import CUDA. Package kernels/cuda computes; both identify devices by UUID.
// Without the build tag cuda, Open returns ErrNotBuilt, and everything else works with the fakes
// of gputest. To add a fact, add a field to Device or DeviceStatus, read it in nvml_*.go and set it in the fakes.
package nvml
