package gputest

import (
	"fmt"

	"latentbeam/internal/devices/nvml"
)

const gib = 1 << 30

// a100 and t4 return devices as their driver describes them.
func a100(i int) nvml.Device {
	return nvml.Device{UUID: UUID(i), Name: "NVIDIA A100-SXM4-80GB", PCI: fmt.Sprintf("0000:%02x:00.0", 0x07+8*i),
		NUMA: i / 4, Capability: [2]int{8, 0}, Memory: 80 * gib, NVLinks: 12, ECC: true,
		PCIe: nvml.PCIe{Generation: 4, Width: 16, MaxGeneration: 4, MaxWidth: 16}}
}

func t4(i int) nvml.Device {
	return nvml.Device{UUID: UUID(i), Name: "Tesla T4", PCI: fmt.Sprintf("0000:%02x:00.0", 0x1b+i),
		NUMA: i / 2, Capability: [2]int{7, 5}, Memory: 15 * gib, ECC: true,
		PCIe: nvml.PCIe{Generation: 1, Width: 8, MaxGeneration: 3, MaxWidth: 16}}
}

// path returns the path between devices of NUMA nodes a and b.
func path(a, b int) nvml.Path {
	if a != b {
		return nvml.AcrossNodes
	}
	return nvml.SameNode
}

// A100s returns n A100 joined by an NVSwitch, four on each NUMA node.
func A100s(n int) *Host {
	var devices []nvml.Device
	for i := range n {
		devices = append(devices, a100(i))
	}
	return newHost(devices, func(i, k int) nvml.Link {
		return nvml.Link{NVLinks: 12, Peer: true, Path: path(devices[i].NUMA, devices[k].NUMA)}
	})
}

// Islands returns two boards of four A100 each. NVLink joins the devices of a board; PCIe joins the boards.
func Islands() *Host {
	var devices []nvml.Device
	for i := range 8 {
		devices = append(devices, a100(i))
	}
	return newHost(devices, func(i, k int) nvml.Link {
		l := nvml.Link{Peer: true, Path: path(devices[i].NUMA, devices[k].NUMA)}
		if i/4 == k/4 {
			l.NVLinks = 4
		}
		return l
	})
}

// T4s returns n T4 without peer access, two on each NUMA node.
func T4s(n int) *Host {
	var devices []nvml.Device
	for i := range n {
		devices = append(devices, t4(i))
	}
	return newHost(devices, func(i, k int) nvml.Link {
		return nvml.Link{Path: path(devices[i].NUMA, devices[k].NUMA)}
	})
}

// Mixed returns two A100 with NVLink and two T4.
func Mixed() *Host {
	devices := []nvml.Device{t4(0), a100(1), t4(2), a100(3)}
	return newHost(devices, func(i, k int) nvml.Link {
		if i%2 == 1 && k%2 == 1 {
			return nvml.Link{NVLinks: 12, Peer: true, Path: nvml.SameNode}
		}
		return nvml.Link{Path: nvml.SameNode}
	})
}

// Divided returns two A100; the first is divided into three instances of 20 GiB (MIG).
func Divided() *Host {
	whole := a100(0)
	whole.Divided = true
	whole.Problem = "it is divided (MIG): its instances are lent"
	devices := []nvml.Device{whole}
	for i := range 3 {
		d := a100(0)
		d.UUID = fmt.Sprintf("MIG-%08x-1111-2222-3333-444444444444", 0xa0+i)
		d.Name += " MIG 2g.20gb"
		d.Memory, d.NVLinks, d.Parent, d.Instance = 20*gib, 0, whole.UUID, [2]int{3 + i, 0}
		devices = append(devices, d)
	}
	devices = append(devices, a100(1))
	return newHost(devices, func(i, k int) nvml.Link { // instances and divided GPUs have no peers
		if i < 4 && k < 4 {
			return nvml.Link{Path: nvml.SameDevice}
		}
		return nvml.Link{Path: nvml.SameNode}
	})
}

// Sick returns four A100. The first throttles for heat, the second needs a reset to replace memory rows, another
// process fills the third, and the fourth is lost.
func Sick() *Host {
	h := A100s(4)
	h.Set(0, func(s *nvml.DeviceStatus) {
		s.Throttle, s.Temperature, s.Utilization = nvml.HeatHardware|nvml.HardwareSlow, 92, 100
	})
	h.Set(1, func(s *nvml.DeviceStatus) { s.ECC.Uncorrected, s.ECC.RemapPending = 2, true })
	h.Set(2, func(s *nvml.DeviceStatus) {
		s.Used, s.Free = 78*gib, gib
		s.Processes = []nvml.Process{{PID: 4242, Memory: 78 * gib}}
	})
	h.LoseQuietly(3)
	return h
}
