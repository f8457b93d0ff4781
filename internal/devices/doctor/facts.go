package doctor

import (
	"latentbeam/internal/devices/nvml"
	"latentbeam/kernels/cuda"
)

// HostFacts is what there is.
type HostFacts struct {
	Program Program     `json:"program"`
	CPU     CPU         `json:"cpu"`
	Memory  HostMemory  `json:"memory"`
	Bound   Bound       `json:"program_memory"`
	Output  OutputFacts `json:"output"`
	GPU     GPU         `json:"gpu"`
	// Libraries are shared libraries and programs that are used where they are found.
	Libraries []Library `json:"libraries"`
}

// Program is this one.
type Program struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
	CUDA     bool   `json:"cuda"`     // built in
}

// CPU is the processors.
type CPU struct {
	Name    string `json:"name"`
	Class   string `json:"class"`        // numeric class of results, such as "cpu/avx512"
	By      string `json:"by,omitempty"` // what computes it
	Cores   int    `json:"cores"`        // that the system shows
	Threads int    `json:"threads"`      // that this process may use at once
}

// HostMemory is the host's.
type HostMemory struct {
	Total     int64  `json:"total_bytes"`
	Free      int64  `json:"free_bytes"`           // for this process, inside its control group
	Bound     string `json:"bound_by,omitempty"`   // what leaves less than the system: a control group, RLIMIT_AS, Slurm
	Files     uint64 `json:"open_files,omitempty"` // that the process may have open; 0: not known
	HugePages string `json:"huge_pages"`           // the mode: always, madvise, never, or "" where there is none
}

// Bound is what bounds the memory of programs that are stages (exec, its option memory).
type Bound struct {
	By     string `json:"by"`               // BoundGroup, BoundLimit, or "" where nothing can
	Group  string `json:"group,omitempty"`  // in which groups are made
	Reason string `json:"reason,omitempty"` // why there is no control group
}

// What bounds the memory of programs.
const (
	BoundGroup = "control group"
	BoundLimit = "RLIMIT_DATA"
)

// OutputFacts is the directory that results go to.
type OutputFacts struct {
	Path    string `json:"path"`
	Free    int64  `json:"free_bytes"`
	Problem string `json:"problem,omitempty"` // why it cannot be written
}

// GPU is what is known of GPUs, from the bus to CUDA.
type GPU struct {
	OnBus   int    `json:"on_bus"` // NVIDIA's that the system sees
	Module  string `json:"module"` // version of the kernel module; "" when it is not loaded
	Hidden  bool   `json:"hidden"` // CUDA_VISIBLE_DEVICES is set
	CUDA    string `json:"cuda"`   // newest CUDA that the driver can do
	Problem string `json:"problem,omitempty"`
	// Devices are those that CUDA shows, and what came of a small computation on each.
	Devices []CUDADevice `json:"devices"`

	Survey      *nvml.Survey        `json:"nvml"` // nil without NVML
	Status      []nvml.DeviceStatus `json:"status,omitempty"`
	Unanswered  []string            `json:"unanswered,omitempty"` // by device: why it has no status
	NVMLProblem string              `json:"nvml_problem,omitempty"`
}

// CUDADevice is one that CUDA shows.
type CUDADevice struct {
	cuda.Device
	Problem string `json:"problem,omitempty"` // why it does not compute
	Full    bool   `json:"full,omitempty"`    // that is because others have its memory
	Slow    string `json:"slow,omitempty"`    // why it computes with kernels of older devices
}

// Library is a shared library or a program.
type Library struct {
	Name  string   `json:"name"`  // as people know it
	Files []string `json:"files"` // that would do, the best first
	Path  string   `json:"path"`  // where it was found; ""
	Cost  string   `json:"without_it"`
	// Version is its own, where it was asked; Problem is why it is not used, though it was found.
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty"`
}
