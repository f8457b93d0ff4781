//go:build !cuda || !linux

package cuda

import (
	"fmt"

	"latentbeam/kernels"
)

var errNotBuilt = fmt.Errorf("%w: this program was built without it (go build -tags cuda, with cgo, on Linux)",
	ErrUnavailable)

// Devices returns no GPUs and the reason: the program was built without CUDA.
func Devices() ([]Device, error) { return nil, errNotBuilt }

// DriverVersion returns the reason why there is no driver.
func DriverVersion() (string, error) { return "", errNotBuilt }

// Libraries returns nil: no libraries are looked for.
func Libraries() []Library { return nil }

// Staged returns 0: no bytes pass through host memory.
func Staged() int64 { return 0 }

// New returns the reason why there is no backend.
func New(int, Options) (kernels.Backend, error) { return nil, errNotBuilt }

// warpgroupsOff returns "".
func warpgroupsOff(Device) string { return "" }

// blasClass returns "".
func blasClass() string { return "" }
