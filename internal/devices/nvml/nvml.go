//go:build cgo && linux && cuda

package nvml

import (
	"errors"
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Built reports whether this program can ask an NVIDIA driver.
const Built = true

// host implements Host with NVML. When the library lacks a C function, calling it through go-nvml
// crashes the process. So host calls nothing before Init, and checks doubtful functions with has.
type host struct {
	lib     nvml.Interface
	known   map[string]bool // whether the library has a symbol
	knownMu sync.Mutex
	mu      sync.Mutex
	handles map[string]nvml.Device // by UUID, instances included
	survey  *Survey
}

// Open asks the NVIDIA driver of this machine. ErrNoDriver: there is none.
func Open() (Host, error) { return open(nvml.New()) }

func open(lib nvml.Interface) (Host, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("%w: libnvidia-ml.so.1 is not there", ErrNoDriver)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: the library is there, the kernel module is not loaded", ErrNoDriver)
	default:
		return nil, fmt.Errorf("start NVML: %s", ret.String())
	}
	return &host{lib: lib, known: map[string]bool{}, handles: map[string]nvml.Device{}}, nil
}

// Close implements Host.
func (h *host) Close() { h.lib.Shutdown() }

// has reports whether the library has the function nvmlDevice<name>; older drivers lack some.
func (h *host) has(name string) bool {
	h.knownMu.Lock()
	defer h.knownMu.Unlock()
	ok, asked := h.known[name]
	if !asked {
		ok = h.lib.Extensions().LookupSymbol("nvmlDevice"+name) == nil
		h.known[name] = ok
	}
	return ok
}

// Survey implements Host. It asks the driver once.
func (h *host) Survey() (Survey, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.survey != nil {
		return *h.survey, nil
	}
	s := Survey{Driver: h.driver()}
	count, ret := h.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return s, fmt.Errorf("count GPUs: %s", ret.String())
	}
	var raw []nvml.Device
	for i := range count {
		dev, ret := h.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			s.Devices = append(s.Devices, unusable(i, ret))
			raw = append(raw, nil)
			continue
		}
		for _, d := range h.describe(i, dev) {
			s.Devices, raw = append(s.Devices, d.Device), append(raw, d.handle)
			h.handles[d.UUID] = d.handle
		}
	}
	s.Links = h.links(s.Devices, raw)
	h.survey = &s
	return s, nil
}

// driver returns the versions; a version that the driver does not report stays empty.
func (h *host) driver() Driver {
	var d Driver
	d.Version, _ = h.lib.SystemGetDriverVersion()
	d.NVML, _ = h.lib.SystemGetNVMLVersion()
	if v, ret := h.lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		d.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	return d
}

// unusable returns device number i with the driver's error.
func unusable(i int, ret nvml.Return) Device {
	name := fmt.Sprintf("GPU-%d", i)
	return Device{UUID: name, Name: name, NUMA: Unknown, Problem: ret.String()}
}

// failed converts a return code to an error: ErrLost if the device is lost.
func failed(what string, ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_RESET_REQUIRED:
		return fmt.Errorf("%s: %w (%s)", what, ErrLost, ret.String())
	}
	return fmt.Errorf("%s: %s", what, ret.String())
}

// lost reports whether a return code means that the device is lost.
func lost(ret nvml.Return) bool { return errors.Is(failed("", ret), ErrLost) }
