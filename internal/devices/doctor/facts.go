package doctor

import (
	"latentbeam/internal/devices/nvml"
	"latentbeam/kernels/cuda"
)

// HostFacts describes the machine.
type HostFacts struct {
	Program Program     `json:"program"`
	CPU     CPU         `json:"cpu"`
	Memory  HostMemory  `json:"memory"`
	Bound   Bound       `json:"program_memory"`
	Output  OutputFacts `json:"output"`
	GPU     GPU         `json:"gpu"`
	// Libraries are optional shared libraries and programs.
	Libraries []Library `json:"libraries"`
}

// Program describes this program.
type Program struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
	CUDA     bool   `json:"cuda"`     // built in
}

// CPU describes the processors.
type CPU struct {
	Name    string `json:"name"`
	Class   string `json:"class"`        // numeric class of results, such as "cpu/avx512"
	By      string `json:"by,omitempty"` // kernels that compute it
	Cores   int    `json:"cores"`        // of the system
	Threads int    `json:"threads"`      // usable by this process at once
}

// HostMemory is the memory of the host.
type HostMemory struct {
	Total     int64  `json:"total_bytes"`
	Free      int64  `json:"free_bytes"`           // for this process, inside its control group
	Bound     string `json:"bound_by,omitempty"`   // limit below the system's memory: a control group, RLIMIT_AS, Slurm
	Files     uint64 `json:"open_files,omitempty"` // limit of the process; 0: unknown
	HugePages string `json:"huge_pages"`           // mode: always, madvise, never; "": none
}

// Bound says how the memory of a stage's program can be limited (stage exec, option memory).
type Bound struct {
	By     string `json:"by"`               // BoundGroup or BoundLimit; "": no limit is possible
	Group  string `json:"group,omitempty"`  // parent of new control groups
	Reason string `json:"reason,omitempty"` // why there is no control group
}

// Values of Bound.By.
const (
	BoundGroup = "control group"
	BoundLimit = "RLIMIT_DATA"
)

// OutputFacts describes the directory of the output.
type OutputFacts struct {
	Path    string `json:"path"`
	Free    int64  `json:"free_bytes"`
	Problem string `json:"problem,omitempty"` // why it cannot be written
}

// GPU describes the GPUs at all levels, from the bus to CUDA.
type GPU struct {
	OnBus   int    `json:"on_bus"` // number of NVIDIA GPUs on the bus
	Module  string `json:"module"` // version of the kernel module; "": not loaded
	Hidden  bool   `json:"hidden"` // CUDA_VISIBLE_DEVICES is set
	CUDA    string `json:"cuda"`   // newest CUDA version that the driver supports
	Problem string `json:"problem,omitempty"`
	// Devices are the devices that CUDA shows, each with the result of a small computation.
	Devices []CUDADevice `json:"devices"`

	Survey      *nvml.Survey        `json:"nvml"` // nil without NVML
	Status      []nvml.DeviceStatus `json:"status,omitempty"`
	Unanswered  []string            `json:"unanswered,omitempty"` // reason why a device has no status, by device
	NVMLProblem string              `json:"nvml_problem,omitempty"`
}

// CUDADevice is a device that CUDA shows.
type CUDADevice struct {
	cuda.Device
	Problem string `json:"problem,omitempty"` // why it does not compute
	Full    bool   `json:"full,omitempty"`    // because other processes use its memory
	Slow    string `json:"slow,omitempty"`    // reason for using kernels of older devices
}

// Library is a shared library or a program.
type Library struct {
	Name  string   `json:"name"`  // for people
	Files []string `json:"files"` // names of suitable files, best first
	Path  string   `json:"path"`  // where it was found; "": not found
	Cost  string   `json:"without_it"`
	// Version is the library's own version, if known. Problem is the reason why a library that was found is not used.
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty"`
}
