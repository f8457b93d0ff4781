package nvml

import (
	"slices"
	"strconv"
)

// Link is how two devices reach each other.
type Link struct {
	// NVLinks are the links that both can use at once: those between the two, or to the switch that joins them.
	NVLinks int  `json:"nvlinks"`
	Peer    bool `json:"peer"` // each reads and writes the other's memory, over NVLink or PCIe
	Path    Path `json:"path"` // of what goes over PCIe
}

// Path is what lies between two devices on the way over PCIe, nearest first, by NVML's levels
// (nvmlGpuTopologyLevel_t).
type Path int

// The paths.
const (
	SameDevice   Path = iota // instances of one GPU too
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

// String says it in a word or two: "NVLink x12", "PCIe peer, one PCIe switch", "through the host".
func (l Link) String() string {
	switch {
	case l.NVLinks > 0:
		return "NVLink x" + strconv.Itoa(l.NVLinks)
	case l.Peer:
		return "PCIe peer, " + l.Path.String()
	}
	return "through the host, " + l.Path.String()
}

// score orders links by how fast exchanges go over them: NVLinks before peers over PCIe before copies through
// the host, and the shorter path first. Only the order counts.
func (l Link) score() int {
	s := int(UnknownPath - min(l.Path, UnknownPath)) // 0 to 7
	if l.Peer {
		s += 10
	}
	return s + 100*l.NVLinks
}
