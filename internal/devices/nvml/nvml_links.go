//go:build cgo && linux && cuda

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// nvlinks returns the bus ids at the other ends of the active NVLinks of a device.
func (h *host) nvlinks(dev nvml.Device) (remotes []string) {
	if !h.has("GetNvLinkState") || !h.has("GetNvLinkRemotePciInfo") {
		return nil
	}
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := dev.GetNvLinkState(link)
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue // numbers may have gaps
		}
		remote := "" // the driver may not name a switch
		if pci, ret := dev.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			remote = busID(pci.BusId)
		}
		remotes = append(remotes, remote)
	}
	return remotes
}

// links returns the links of all pairs of devices.
func (h *host) links(devices []Device, raw []nvml.Device) [][]Link {
	remotes := make([][]string, len(devices))
	for i, d := range devices {
		if raw[i] != nil && !d.MIG() {
			remotes[i] = h.nvlinks(raw[i])
		}
	}
	out := make([][]Link, len(devices))
	for i := range devices {
		out[i] = make([]Link, len(devices))
		for k := range devices {
			switch {
			case i == k:
			case raw[i] == nil || raw[k] == nil:
				out[i][k].Path = UnknownPath
			default:
				out[i][k] = h.link(devices[i], devices[k], raw[i], raw[k], remotes[i], remotes[k])
			}
		}
	}
	return out
}

func (h *host) link(a, b Device, rawA, rawB nvml.Device, remotesA, remotesB []string) (l Link) {
	l.Path = h.path(a, b, rawA, rawB)
	if a.MIG() || b.MIG() || a.Divided || b.Divided || !h.has("GetP2PStatus") {
		return l // instances have no peer access
	}
	l.Peer = able(rawA, rawB, nvml.P2P_CAPS_INDEX_READ) && able(rawA, rawB, nvml.P2P_CAPS_INDEX_WRITE)
	if !able(rawA, rawB, nvml.P2P_CAPS_INDEX_NVLINK) {
		return l
	}
	for _, remote := range remotesA {
		if remote == b.PCI {
			l.NVLinks++
		}
	}
	if l.NVLinks == 0 { // over a switch
		l.NVLinks = min(len(remotesA), len(remotesB))
	}
	return l
}

func able(a, b nvml.Device, what nvml.GpuP2PCapsIndex) bool {
	status, ret := a.GetP2PStatus(b, what)
	return ret == nvml.SUCCESS && status == nvml.P2P_STATUS_OK
}

// path returns the PCIe path between two devices.
func (h *host) path(a, b Device, rawA, rawB nvml.Device) Path {
	root := func(d Device) string {
		if d.MIG() {
			return d.Parent
		}
		return d.UUID
	}
	if root(a) == root(b) {
		return SameDevice
	}
	if a.MIG() || b.MIG() {
		if h.handles[root(a)] == nil || h.handles[root(b)] == nil {
			return UnknownPath
		}
		rawA, rawB = h.handles[root(a)], h.handles[root(b)]
	}
	if !h.has("GetTopologyCommonAncestor") {
		return UnknownPath
	}
	level, ret := rawA.GetTopologyCommonAncestor(rawB)
	if ret != nvml.SUCCESS {
		return UnknownPath
	}
	switch level {
	case nvml.TOPOLOGY_INTERNAL:
		return SameBoard
	case nvml.TOPOLOGY_SINGLE:
		return OneSwitch
	case nvml.TOPOLOGY_MULTIPLE:
		return SomeSwitches
	case nvml.TOPOLOGY_HOSTBRIDGE:
		return HostBridge
	case nvml.TOPOLOGY_NODE:
		return SameNode
	case nvml.TOPOLOGY_SYSTEM:
		return AcrossNodes
	}
	return UnknownPath
}
