package nvml

import (
	"slices"
	"strconv"
)

// Link is the connection of two devices.
type Link struct {
	// NVLinks is the number of NVLinks that both can use at once: between the two, or to their common switch.
	NVLinks int  `json:"nvlinks"`
	Peer    bool `json:"peer"` // each reads and writes the other's memory, over NVLink or PCIe
	Path    Path `json:"path"` // path over PCIe
}

// Path is the PCIe path between two devices, nearest first, by NVML's levels
// (nvmlGpuTopologyLevel_t).
type Path int

// The paths.
const (
	SameDevice   Path = iota // also instances of one GPU
	SameBoard                // one board with two GPUs
	OneSwitch                // one PCIe switch
	SomeSwitches             // several PCIe switches
	HostBridge               // the CPU's host bridge
	SameNode                 // host bridges of one NUMA node
	AcrossNodes              // the connection between NUMA nodes
	UnknownPath
)

var pathNames = [...]string{"same device", "same board", "one PCIe switch", "PCIe switches", "host bridge",
	"one NUMA node", "across NUMA nodes", "unknown"}

// String names the path.
func (p Path) String() string {
	if p < 0 || int(p) >= len(pathNames) {
		return pathNames[UnknownPath]
	}
	return pathNames[p]
}

// MarshalText writes the name.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name that MarshalText wrote; any other is unknown.
func (p *Path) UnmarshalText(text []byte) error {
	*p = UnknownPath
	if i := slices.Index(pathNames[:], string(text)); i >= 0 {
		*p = Path(i)
	}
	return nil
}

// String describes the link briefly: "NVLink x12", "PCIe peer, one PCIe switch", "through the host".
func (l Link) String() string {
	switch {
	case l.NVLinks > 0:
		return "NVLink x" + strconv.Itoa(l.NVLinks)
	case l.Peer:
		return "PCIe peer, " + l.Path.String()
	}
	return "through the host, " + l.Path.String()
}

// score orders links by speed; larger is faster. NVLinks are faster than peer access over PCIe, which is faster than copies
// through the host; a shorter path is faster. Only the order of scores matters.
func (l Link) score() int {
	s := int(UnknownPath - min(l.Path, UnknownPath)) // 0 to 7
	if l.Peer {
		s += 10
	}
	return s + 100*l.NVLinks
}
