//go:build cuda && linux

package driver

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -L${SRCDIR}/stub -ldl
#include <stdlib.h>
#include "loader.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	_ "gorgonia.org/cu" // the initialization of cu needs the slots of this package
)

// ErrNoDriver is the error if CUDA cannot be used: there is no library, it is too old, or it finds no device.
var ErrNoDriver = errors.New("no usable CUDA driver")

// leastVersion is the oldest CUDA version that the driver must support, because the kernels are PTX of CUDA 12.
const leastVersion = 12000

// EnvLibrary is the environment variable with the path of another driver library, for tests.
const EnvLibrary = "LATENTBEAM_LIBCUDA"

// places are the paths at which the driver library is looked for. The system's loader searches for the first; it does not search
// the folders of WSL and of containers on Kubernetes.
var places = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"}

// Opened is what Open found.
type Opened struct {
	Path    string // path with which it was opened
	Version int    // newest CUDA version that the driver supports, as 1000 major + 10 minor
	Bound   int    // number of entry points of gorgonia.org/cu that were found
	Total   int
}

// Open finds and opens the driver, once in a process. Its error wraps ErrNoDriver and says what to do.
var Open = sync.OnceValues(func() (Opened, error) {
	list := places
	if path := os.Getenv(EnvLibrary); path != "" {
		list = []string{path}
	}
	var errs []error
	for _, path := range list {
		o, err := open(path)
		if err == nil {
			return o, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, errNoLibrary) {
			break // there is a driver, and err says what is wrong with it
		}
	}
	return Opened{}, fmt.Errorf("%w: %w", ErrNoDriver, mostUseful(errs))
})

var errNoLibrary = errors.New("not found")

// mostUseful returns the most useful error of the list: the last one about a library that exists, else the first.
func mostUseful(errs []error) error {
	if last := errs[len(errs)-1]; !errors.Is(last, errNoLibrary) {
		return last
	}
	return errs[0]
}

// open opens the library at path.
func open(path string) (Opened, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var r C.lb_opened
	C.lb_driver_open(name, leastVersion, &r)
	o := Opened{Path: path, Version: int(r.version), Bound: int(r.bound), Total: int(r.total)}
	message := C.GoString(&r.message[0])
	switch r.outcome {
	case C.LB_OPEN_DONE:
		return o, nil
	case C.LB_OPEN_NO_LIBRARY:
		// The message of the loader begins with the name.
		why := strings.TrimPrefix(message, path+": ")
		return o, fmt.Errorf("%s %w: %s", path, errNoLibrary, why)
	case C.LB_OPEN_NO_SYMBOL:
		return o, fmt.Errorf("%s has no %s: it is not a CUDA driver of version 12 or newer", path, message)
	case C.LB_OPEN_TOO_OLD:
		return o, fmt.Errorf("%s is the driver of CUDA %s, %s or newer is needed: update the NVIDIA driver",
			path, VersionText(int(r.code)), VersionText(leastVersion))
	}
	code := int(r.code)
	return o, fmt.Errorf("%s does not start: %w%s", path, &Error{Call: "cuInit", Code: code}, remedy(code))
}

// remedy returns advice for the error code of a driver that does not start.
func remedy(code int) string {
	switch code {
	case 34: // CUDA_ERROR_STUB_LIBRARY
		return ": this is the stub library of a CUDA toolkit: remove its folder from LD_LIBRARY_PATH"
	case 100: // CUDA_ERROR_NO_DEVICE
		return ": is CUDA_VISIBLE_DEVICES empty, or does the container have no GPUs (docker run --gpus all)?"
	case 802: // CUDA_ERROR_SYSTEM_NOT_READY
		return ": GPUs behind NVSwitch need the service nvidia-fabricmanager in the version of the driver"
	case 803: // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
		return ": the kernel module and the library have different versions, as after an update: reload the module, or reboot"
	case 804: // CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
		return ": a CUDA compatibility library is found before the driver's library: remove it from LD_LIBRARY_PATH"
	case 999: // CUDA_ERROR_UNKNOWN
		return ": is the kernel module nvidia_uvm loaded, and may this user open /dev/nvidia-uvm?"
	}
	return ""
}

// VersionText formats a CUDA version, such as 12.6 for 12060.
func VersionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }
