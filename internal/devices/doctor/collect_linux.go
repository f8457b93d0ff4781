package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"latentbeam/internal/system"
)

// Files in which Linux provides facts.
const (
	memInfo  = "/proc/meminfo"
	hugeMode = "/sys/kernel/mm/transparent_hugepage/enabled"
	pciRoot  = "/sys/bus/pci/devices"
	moduleAt = "/sys/module/nvidia/version"
)

func hostMemory() HostMemory {
	m := HostMemory{Total: kib(field(memInfo, "MemTotal")), Free: kib(field(memInfo, "MemAvailable")),
		HugePages: chosen(text(hugeMode))}
	m.Files, _ = system.OpenFiles()
	if least, ok := system.SmallestBound(system.MemoryBounds()); ok && least.Free() < m.Free {
		m.Total, m.Free, m.Bound = min(m.Total, least.Most), least.Free(), least.What
	}
	return m
}

func programMemory() Bound {
	group, err := system.ParentGroup()
	if err != nil {
		return Bound{By: BoundLimit, Reason: err.Error()}
	}
	return Bound{By: BoundGroup, Group: group}
}

// chosen returns the word in brackets: "always [madvise] never".
func chosen(modes string) string {
	_, rest, _ := strings.Cut(modes, "[")
	mode, _, _ := strings.Cut(rest, "]")
	return mode
}

// text returns the content of a small file; "": it cannot be read.
func text(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// hardware looks for NVIDIA's GPUs on the bus and for the driver's kernel module, without any library.
func hardware() GPU {
	g := GPU{Module: text(moduleAt)}
	_, g.Hidden = os.LookupEnv("CUDA_VISIBLE_DEVICES")
	devices, _ := filepath.Glob(pciRoot + "/*/vendor")
	for _, name := range devices {
		class := text(filepath.Join(filepath.Dir(name), "class"))
		if text(name) == "0x10de" && strings.HasPrefix(class, "0x03") { // NVIDIA, display or 3D controller
			g.OnBus++
		}
	}
	return g
}
