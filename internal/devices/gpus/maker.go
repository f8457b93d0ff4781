package gpus

import "latentbeam/kernels"

// Maker opens devices to compute on, as kernels/cuda does.
type Maker interface {
	// Visible returns the devices that this process may compute on. CUDA_VISIBLE_DEVICES hides others.
	Visible() ([]Visible, error)
	// Open returns a new backend on a device, without errors of an earlier backend.
	Open(uuid string) (kernels.Backend, error)
	// Connect returns the transports of a group whose ranks are on these devices, in the same order.
	Connect(devices []kernels.Backend) ([]kernels.Transport, error)
	// Staged returns the number of bytes copied between devices through the host, because they have no peer access.
	Staged() int64
}

// Visible is a device that a Maker can open.
type Visible struct {
	UUID   string // in NVML's form
	Name   string
	Memory int64  // total bytes
	Class  string // numeric class of its results
	TooOld string // why it can never be opened; "": it can
}
