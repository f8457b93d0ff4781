package nvml

import "strings"

// Unknown stands for a number that the driver does not report.
const Unknown = -1

// Device is a GPU, or an instance of a divided GPU (MIG).
type Device struct {
	UUID       string `json:"uuid"` // "GPU-…" or "MIG-…", as CUDA writes it too
	Name       string `json:"name"` // such as "NVIDIA A100-SXM4-80GB"
	PCI        string `json:"pci"`  // bus id, such as "0000:17:00.0"
	NUMA       int    `json:"numa"` // nearest NUMA node; may be Unknown
	Capability [2]int `json:"compute_capability"`
	Memory     int64  `json:"memory_bytes"` // total
	PCIe       PCIe   `json:"pcie"`         // connection to the host
	NVLinks    int    `json:"nvlinks"`      // active ones, to devices and switches
	ECC        bool   `json:"ecc"`          // its memory corrects errors
	Parent     string `json:"mig_parent"`   // UUID of the divided GPU; "": not an instance
	Instance   [2]int `json:"mig_instance"` // of a MIG device: GPU instance and compute instance
	Divided    bool   `json:"mig_enabled"`  // only its instances can be used
	Problem    string `json:"problem"`      // why the device cannot be used; "": it can
}

// MIG reports whether the device is an instance of a GPU.
func (d Device) MIG() bool { return d.Parent != "" }

// Short returns the first eight characters of the UUID, for people.
func (d Device) Short() string { return short(d.UUID) }

func short(uuid string) string {
	kind, id, found := strings.Cut(uuid, "-")
	if !found {
		return uuid
	}
	return kind + "-" + id[:min(8, len(id))]
}

// PCIe is a connection to the host.
type PCIe struct {
	Generation    int `json:"generation"` // current; idle links use a lower one
	Width         int `json:"width"`      // current lanes
	MaxGeneration int `json:"max_generation"`
	MaxWidth      int `json:"max_width"`
}

// Bandwidth returns the link's maximum bandwidth in each direction, in bytes/s. Generations 1 to 6 have
// 2.5, 5, 8, 16, 32 and 64 GT/s a lane; the first two use 8/10 coding, the others 128/130 (PCI-SIG).
func (p PCIe) Bandwidth() float64 {
	rates := []float64{0, 2.0e9, 4.0e9, 7.877e9, 15.754e9, 31.508e9, 63.015e9} // bit/s of payload
	if p.MaxGeneration < 1 || p.MaxGeneration >= len(rates) {
		return 0
	}
	return rates[p.MaxGeneration] / 8 * float64(p.MaxWidth)
}

// DeviceStatus is the state of a device at one moment.
type DeviceStatus struct {
	Used        int64     `json:"used_bytes"`          // by processes, without Reserved
	Reserved    int64     `json:"reserved_bytes"`      // by the driver; 0: unknown
	Free        int64     `json:"free_bytes"`          // for processes
	Utilization int       `json:"utilization_percent"` // percentage of time with a kernel running; may be Unknown
	Temperature int       `json:"temperature_c"`       // °C; may be Unknown
	Power       float64   `json:"power_w"`             // watts; may be Unknown
	PowerLimit  float64   `json:"power_limit_w"`       // watts; may be Unknown
	Throttle    Throttle  `json:"throttle"`
	Processes   []Process `json:"processes"` // processes that compute on the device
	ECC         ECC       `json:"ecc"`
}

// Process is a process that computes on a device.
type Process struct {
	PID    int   `json:"pid"`
	Memory int64 `json:"memory_bytes"` // Unknown in a container
}

// ECC counts memory errors since the driver was loaded, and memory rows that were replaced permanently.
type ECC struct {
	Corrected    int64 `json:"corrected"`
	Uncorrected  int64 `json:"uncorrected"`
	Remapped     int   `json:"remapped_rows"`
	RemapPending bool  `json:"remap_pending"` // needs a reset of the GPU
	RemapFailed  bool  `json:"remap_failed"`  // no spare rows are left
	Unanswered   bool  `json:"unanswered"`    // the driver does not report it
}

// Sick returns the reason why the memory is unreliable; "": it is reliable.
func (e ECC) Sick() string {
	if e.RemapFailed {
		return "no spare rows of memory are left (row remapping failed)"
	}
	return ""
}

// Ails returns a problem of memory that is still usable; "": none. Pages with errors are out of use
// until a reset replaces their rows.
func (e ECC) Ails() string {
	switch {
	case e.RemapPending:
		return "rows of memory wait to be replaced: reset the GPU when it is idle"
	case e.Uncorrected > 0:
		return "it had memory errors that could not be corrected, and is in use again"
	}
	return ""
}
