package gpus

import "latentbeam/kernels"

// Maker opens devices to compute on. kernels/cuda is one.
type Maker interface {
	// Visible returns the devices that this process may compute on. CUDA_VISIBLE_DEVICES hides others.
	Visible() ([]Visible, error)
	// Open returns a new backend on a device, with nothing left of an earlier one's errors.
	Open(uuid string) (kernels.Backend, error)
	// Connect returns the ends of a group whose ranks are on these devices, in their order.
	Connect(devices []kernels.Backend) ([]kernels.Transport, error)
	// Staged returns how many bytes have gone from device to device through the host, because they have no access.
	Staged() int64
}

// Visible is a device that a Maker can open.
type Visible struct {
	UUID   string // as NVML writes it
	Name   string
	Memory int64  // bytes in all
	Class  string // numeric class of its results
	TooOld string // why it cannot be opened, whatever its state; ""
}
