package nvml

import (
	"context"
	"errors"
)

// Host is the GPUs of one machine.
type Host interface {
	// Survey returns what does not change while the program runs.
	Survey() (Survey, error)
	// Status returns how a device is now. ErrLost: it does not answer any more.
	Status(uuid string) (DeviceStatus, error)
	// Watch reports what happens to the devices until ctx ends, and returns then, or earlier with an error where
	// the driver reports nothing.
	Watch(ctx context.Context, report func(Event)) error
	Close()
}

// Survey is what a machine has. The order is the driver's; CUDA's is another, and CUDA_VISIBLE_DEVICES hides
// devices from it, so devices are matched by UUID.
type Survey struct {
	Driver  Driver   `json:"driver"`
	Devices []Device `json:"devices"`
	Links   [][]Link `json:"links"` // by device and device; zero with itself
}

// Driver is the versions of the driver's parts.
type Driver struct {
	Version string `json:"version"`      // of the kernel module: "550.54.15"
	CUDA    string `json:"cuda"`         // newest CUDA that it serves: "12.4"
	NVML    string `json:"nvml_version"` // of the library that answers
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
	// ErrNotBuilt is the error of Open in a program that was built without the tag cuda.
	ErrNotBuilt = errors.New("this program was built without CUDA (go build -tags cuda)")
	// ErrNoDriver is the error of Open where there is no NVIDIA driver.
	ErrNoDriver = errors.New("no NVIDIA driver")
	// ErrLost is the error of a device that does not answer any more: it has fallen off the bus or needs a reset.
	ErrLost = errors.New("the GPU is lost")
)
