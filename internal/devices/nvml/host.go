package nvml

import (
	"context"
	"errors"
)

// Host gives access to the GPUs of one machine.
type Host interface {
	// Survey returns the facts that do not change while the program runs.
	Survey() (Survey, error)
	// Status returns the current state of a device, or ErrLost if it no longer answers.
	Status(uuid string) (DeviceStatus, error)
	// Watch reports events of the devices until ctx is done. It returns early with an error if the driver
	// cannot report events.
	Watch(ctx context.Context, report func(Event)) error
	Close()
}

// Survey describes the devices of a machine, in the driver's order. CUDA has another order and
// CUDA_VISIBLE_DEVICES hides devices, so callers match devices by UUID.
type Survey struct {
	Driver  Driver   `json:"driver"`
	Devices []Device `json:"devices"`
	Links   [][]Link `json:"links"` // Links[i][k] joins devices i and k; zero for i == k
}

// Driver is the versions of the driver's parts.
type Driver struct {
	Version string `json:"version"`      // of the kernel module: "550.54.15"
	CUDA    string `json:"cuda"`         // newest CUDA version that it supports: "12.4"
	NVML    string `json:"nvml_version"` // of the NVML library
}

// Find returns the device with the UUID.
func (s *Survey) Find(uuid string) (int, bool) {
	for i, d := range s.Devices {
		if d.UUID == uuid {
			return i, true
		}
	}
	return 0, false
}

var (
	// ErrNotBuilt is returned by Open in a program that was built without the tag cuda.
	ErrNotBuilt = errors.New("this program was built without CUDA (go build -tags cuda)")
	// ErrNoDriver is returned by Open if there is no NVIDIA driver.
	ErrNoDriver = errors.New("no NVIDIA driver")
	// ErrLost is the error of a device that no longer answers: it has fallen off the bus or needs a reset.
	ErrLost = errors.New("the GPU is lost")
)
