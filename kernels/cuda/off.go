//go:build !cuda || !linux

package cuda

import (
	"fmt"

	"latentbeam/kernels"
)

var errNotBuilt = fmt.Errorf("%w: this program was built without it (go build -tags cuda, with cgo, on Linux)",
	ErrUnavailable)

// Devices returns the GPUs of this process: here none, and why.
func Devices() ([]Device, error) { return nil, errNotBuilt }

// DriverVersion returns the newest CUDA that the driver can do: here none, and why.
func DriverVersion() (string, error) { return "", errNotBuilt }

// Libraries returns what is looked for at run time: here nothing.
func Libraries() []Library { return nil }

// Staged returns how many bytes went from device to device through host memory: here none.
func Staged() int64 { return 0 }

// New returns a backend on a device: here none, and why.
func New(int, Options) (kernels.Backend, error) { return nil, errNotBuilt }

// warpgroupsOff is why a device does without warpgroups.
func warpgroupsOff(Device) string { return "" }

// blasClass is what cublasLt adds to the numeric class.
func blasClass() string { return "" }
