package cuda

import (
	"errors"
	"fmt"
)

// ErrUnavailable is why there is no CUDA at all: the text says whether it is the program, the driver or the
// devices that are missing.
var ErrUnavailable = errors.New("CUDA is not available")

// Device is a GPU as the driver shows it to this process.
type Device struct {
	Index           int
	Name            string
	UUID            string // as NVML writes it: "GPU-..." or "MIG-..."
	PCI             string // such as "0000:3b:00.0"
	Major, Minor    int    // compute capability
	Memory          int64  // bytes in all
	Multiprocessors int
}

// Class returns the numeric class of the device's results: "cuda/" and the compute capability, such as
// "cuda/sm_90", for on it depend the instructions that the kernels consist of and how tensor cores add; and
// cublasLt with its version where it is used.
func (d Device) Class() string { return fmt.Sprintf("cuda/sm_%d%d%s", d.Major, d.Minor, blasClass()) }

// Library is a shared library that the backend looks for at run time.
type Library struct {
	Name    string
	Path    string // where it was found, or ""
	Problem string // why it is not used, or ""
	Without string // what is lost without it
}

// Options are how a Backend is made.
type Options struct {
	// Memory is how many bytes of tensors the backend may hold at once, weights not counted; 0: what there is.
	Memory int64
}
