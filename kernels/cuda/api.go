package cuda

import (
	"errors"
	"fmt"
)

// ErrUnavailable is the error if CUDA cannot be used at all. Its text says whether the program, the driver or the devices are
// the reason.
var ErrUnavailable = errors.New("CUDA is not available")

// Device is a GPU that the driver offers to this process.
type Device struct {
	Index           int
	Name            string
	UUID            string // as NVML writes it: "GPU-..." or "MIG-..."
	PCI             string // such as "0000:3b:00.0"
	Major, Minor    int    // compute capability
	Memory          int64  // total bytes
	Multiprocessors int
	ActualArch      int // true compute capability, as 10 major + minor, if the device counts as an older one (EnvAs); else 0
}

// minArch is the oldest compute capability that has kernels, as in kern.Targets: Turing.
const minArch = 75

// TooOld says why there are no kernels for the device; "" if there are.
func (d Device) TooOld() string {
	if 10*d.Major+d.Minor >= minArch {
		return ""
	}
	return fmt.Sprintf("too old: compute capability %d.%d, needs %d.%d", d.Major, d.Minor, minArch/10, minArch%10)
}

// warpgroupArch is the compute capability that has warpgroup kernels, as 10 major + minor.
const warpgroupArch = 90

// hasWarpgroups reports whether the device could use warpgroup kernels.
func (d Device) hasWarpgroups() bool { return 10*d.Major+d.Minor == warpgroupArch }

// WithoutWarpgroups returns why a device of compute capability 9.0 does not use its fast warpgroup instructions: the
// environment turns them off, or the check at opening gave wrong results. Otherwise it returns "".
func (d Device) WithoutWarpgroups() string {
	if !d.hasWarpgroups() {
		return ""
	}
	return warpgroupsOff(d)
}

// Class returns the numeric class of the device's results: "cuda/" and the compute capability, such as "cuda/sm_80", because it
// decides the kernels' instructions and how tensor cores add; "+wgmma" if products use warpgroups, whose sums differ; "-on-90"
// if the kernels are those of an older device; and cublasLt with its version if it is used.
func (d Device) Class() string {
	class := fmt.Sprintf("cuda/sm_%d%d", d.Major, d.Minor)
	if d.ActualArch > 0 {
		class += fmt.Sprintf("-on-%d", d.ActualArch)
	}
	if d.hasWarpgroups() && warpgroupsOff(d) == "" {
		class += "+wgmma"
	}
	return class + blasClass()
}

// Library is a shared library that the backend looks for at run time.
type Library struct {
	Name    string
	Path    string // path of the library, or ""
	Version string // such as 2.27.3; "" if it was not read
	Problem string // why it is not used, or ""
	Without string // what does not work without it
}

// Options configure a Backend.
type Options struct {
	// Memory limits the bytes of tensors, without weights, that the backend holds at one time; 0: no limit.
	Memory int64
}
