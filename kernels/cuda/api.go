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
	Really          int // compute capability, as 10 major + minor, where the device counts as an older one; else 0
}

// leastArch is the oldest compute capability that there are kernels for, as kern.Targets has it: Turing.
const leastArch = 75

// TooOld says that there are no kernels for the device, "" where there are.
func (d Device) TooOld() string {
	if 10*d.Major+d.Minor >= leastArch {
		return ""
	}
	return fmt.Sprintf("too old: compute capability %d.%d, needs %d.%d", d.Major, d.Minor, leastArch/10, leastArch%10)
}

// warpgroupArch is the compute capability that has kernels of warpgroups, as kernels count it.
const warpgroupArch = 90

// hasWarpgroups reports whether the device could use kernels of warpgroups.
func (d Device) hasWarpgroups() bool { return 10*d.Major+d.Minor == warpgroupArch }

// WithoutWarpgroups returns why a device that has the fast instructions of compute capability 9.0 does without them:
// because the environment says so, or because what it computed with them when it was opened was wrong. "" else.
func (d Device) WithoutWarpgroups() string {
	if !d.hasWarpgroups() {
		return ""
	}
	return warpgroupsOff(d)
}

// Class returns the numeric class of the device's results: "cuda/" and the compute capability, such as "cuda/sm_80",
// for on it depend the instructions that the kernels consist of and how tensor cores add; "+wgmma" where products
// are those of warpgroups, whose sums are others; "-on-90" where the kernels are those of an older device than it is; and
// cublasLt with its version where it is used.
func (d Device) Class() string {
	class := fmt.Sprintf("cuda/sm_%d%d", d.Major, d.Minor)
	if d.Really > 0 {
		class += fmt.Sprintf("-on-%d", d.Really)
	}
	if d.hasWarpgroups() && warpgroupsOff(d) == "" {
		class += "+wgmma"
	}
	return class + blasClass()
}

// Library is a shared library that the backend looks for at run time.
type Library struct {
	Name    string
	Path    string // where it was found, or ""
	Version string // such as 2.27.3; "" where it was not asked
	Problem string // why it is not used, or ""
	Without string // what is lost without it
}

// Options are how a Backend is made.
type Options struct {
	// Memory is how many bytes of tensors the backend may hold at once, weights not counted; 0: what there is.
	Memory int64
}
