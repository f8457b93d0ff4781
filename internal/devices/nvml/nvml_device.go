//go:build cgo && linux && cuda

package nvml

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// described is a device with its handle.
type described struct {
	Device
	handle nvml.Device
}

// describe returns GPU number i, followed by its instances if it is divided.
func (h *host) describe(i int, dev nvml.Device) []described {
	d := Device{NUMA: Unknown}
	var ret nvml.Return
	if d.UUID, ret = dev.GetUUID(); ret != nvml.SUCCESS {
		return []described{{unusable(i, ret), dev}}
	}
	d.Name, _ = dev.GetName()
	if pci, ret := dev.GetPciInfo(); ret == nvml.SUCCESS {
		d.PCI = busID(pci.BusId)
		d.NUMA = numaNode(d.PCI)
	}
	d.Capability[0], d.Capability[1], _ = dev.GetCudaComputeCapability()
	memory, ret := dev.GetMemoryInfo()
	if d.Memory = int64(memory.Total); ret != nvml.SUCCESS {
		d.Problem = failed("read its memory", ret).Error()
	}
	d.PCIe = h.pcie(dev)
	d.NVLinks = len(h.nvlinks(dev))
	if h.has("GetEccMode") {
		now, _, ret := dev.GetEccMode()
		d.ECC = ret == nvml.SUCCESS && now == nvml.FEATURE_ENABLED
	}
	instances := h.instances(dev, d)
	if d.Divided = h.divided(dev); d.Divided {
		d.Problem = "it is divided (MIG): its instances are lent"
		if len(instances) == 0 {
			d.Problem = "it is divided (MIG) and has no instances"
		}
	}
	return append([]described{{d, dev}}, instances...)
}

// divided reports whether the GPU is in MIG mode.
func (h *host) divided(dev nvml.Device) bool {
	if !h.has("GetMigMode") {
		return false
	}
	now, _, ret := dev.GetMigMode()
	return ret == nvml.SUCCESS && now == nvml.DEVICE_MIG_ENABLE
}

// instances returns the parts of a divided GPU.
func (h *host) instances(dev nvml.Device, parent Device) (out []described) {
	if !h.divided(dev) {
		return nil
	}
	most, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	for i := range most {
		part, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // no instance here
		}
		d := parent
		d.Parent, d.NVLinks, d.Divided, d.Problem = parent.UUID, 0, false, ""
		if d.UUID, ret = part.GetUUID(); ret != nvml.SUCCESS {
			continue
		}
		if name, ret := part.GetName(); ret == nvml.SUCCESS {
			d.Name = name
		}
		if m, ret := part.GetMemoryInfo(); ret == nvml.SUCCESS {
			d.Memory = int64(m.Total)
		}
		d.Instance[0], _ = part.GetGpuInstanceId()
		d.Instance[1], _ = part.GetComputeInstanceId()
		out = append(out, described{d, part})
	}
	return out
}

// pcie returns the device's connection to the host.
func (h *host) pcie(dev nvml.Device) (p PCIe) {
	p.Generation, _ = dev.GetCurrPcieLinkGeneration()
	p.Width, _ = dev.GetCurrPcieLinkWidth()
	p.MaxGeneration, _ = dev.GetMaxPcieLinkGeneration()
	p.MaxWidth, _ = dev.GetMaxPcieLinkWidth()
	return p
}

// busID converts NVML's "00000000:17:00.0" to the form of /sys: "0000:17:00.0".
func busID(raw [32]int8) string {
	var b []byte
	for _, c := range raw {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	id := strings.ToLower(string(b))
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 {
		id = domain[4:] + ":" + rest
	}
	return id
}

// pciDevices is the directory in which Linux lists the devices of the PCI bus.
var pciDevices = "/sys/bus/pci/devices"

// numaNode returns the NUMA node of a device of the bus.
func numaNode(pci string) int {
	text, err := os.ReadFile(filepath.Join(pciDevices, pci, "numa_node"))
	if err != nil || pci == "" {
		return Unknown
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return Unknown
	}
	return n
}
