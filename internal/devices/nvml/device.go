package nvml

import "strings"

// Unknown stands where the driver does not say a number.
const Unknown = -1

// Device is a GPU, or an instance of one that is divided (MIG).
type Device struct {
	UUID       string `json:"uuid"` // "GPU-…" or "MIG-…", as CUDA writes it too
	Name       string `json:"name"` // such as "NVIDIA A100-SXM4-80GB"
	PCI        string `json:"pci"`  // bus id, such as "0000:17:00.0"
	NUMA       int    `json:"numa"` // node of the host's memory that is nearest; Unknown
	Capability [2]int `json:"compute_capability"`
	Memory     int64  `json:"memory_bytes"` // in all
	PCIe       PCIe   `json:"pcie"`         // its way to the host
	NVLinks    int    `json:"nvlinks"`      // active ones, to devices and switches
	ECC        bool   `json:"ecc"`          // its memory corrects errors
	Parent     string `json:"mig_parent"`   // UUID of the GPU that this is an instance of; ""
	Instance   [2]int `json:"mig_instance"` // of a MIG device: GPU instance and compute instance
	Divided    bool   `json:"mig_enabled"`  // instances are lent, not the GPU itself
	Problem    string `json:"problem"`      // why the device cannot be used; "" where it can
}

// MIG reports whether the device is an instance of a GPU.
func (d Device) MIG() bool { return d.Parent != "" }

// Short is the UUID as people tell devices apart: its first eight characters.
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
	Generation    int `json:"generation"` // now; links rest in a lower one
	Width         int `json:"width"`      // lanes now
	MaxGeneration int `json:"max_generation"`
	MaxWidth      int `json:"max_width"`
}

// Bandwidth returns what the link could carry at best in each direction, in bytes/s: generations 1 to 6 have
// 2.5, 5, 8, 16, 32 and 64 GT/s a lane, the first two with 8/10 coding, the others with 128/130 (PCI-SIG).
func (p PCIe) Bandwidth() float64 {
	rates := []float64{0, 2.0e9, 4.0e9, 7.877e9, 15.754e9, 31.508e9, 63.015e9} // bit/s of payload
	if p.MaxGeneration < 1 || p.MaxGeneration >= len(rates) {
		return 0
	}
	return rates[p.MaxGeneration] / 8 * float64(p.MaxWidth)
}

// DeviceStatus is how a device is at a moment.
type DeviceStatus struct {
	Used        int64     `json:"used_bytes"`          // by processes; without what is reserved
	Reserved    int64     `json:"reserved_bytes"`      // by the driver; 0 where it does not say
	Free        int64     `json:"free_bytes"`          // for processes
	Utilization int       `json:"utilization_percent"` // of the time that kernels ran; Unknown
	Temperature int       `json:"temperature_c"`       // °C; Unknown
	Power       float64   `json:"power_w"`             // watts; Unknown
	PowerLimit  float64   `json:"power_limit_w"`       // watts; Unknown
	Throttle    Throttle  `json:"throttle"`
	Processes   []Process `json:"processes"` // that compute
	ECC         ECC       `json:"ecc"`
}

// Process is a process that computes on a device.
type Process struct {
	PID    int   `json:"pid"`
	Memory int64 `json:"memory_bytes"` // Unknown in a container
}

// ECC counts memory errors since the driver was loaded, and rows of memory that were replaced for good.
type ECC struct {
	Corrected    int64 `json:"corrected"`
	Uncorrected  int64 `json:"uncorrected"`
	Remapped     int   `json:"remapped_rows"`
	RemapPending bool  `json:"remap_pending"` // takes a reset of the GPU
	RemapFailed  bool  `json:"remap_failed"`  // no spare rows are left
	Unanswered   bool  `json:"unanswered"`    // the driver does not say
}

// Sick says why the memory is not to be trusted, "" where it is.
func (e ECC) Sick() string {
	if e.RemapFailed {
		return "no spare rows of memory are left (row remapping failed)"
	}
	return ""
}

// Ails says what is wrong with memory that can be used for now, "" for nothing: pages with errors are out of use
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
