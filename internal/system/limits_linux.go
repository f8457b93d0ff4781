package system

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MemoryBounds returns all limits on the memory of this process.
func MemoryBounds() []MemoryBound { return osFacts{"/", os.Getenv}.bounds() }

// OpenFiles returns how many files this process may have open. The Go runtime has already raised soft to hard.
func OpenFiles() (soft, hard uint64) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0, 0
	}
	return r.Cur, r.Max
}

// osFacts reads facts of the operating system. Tests use another root and environment.
type osFacts struct {
	root   string
	getenv func(string) string
}

// noLimit is below the value that control groups of version 1 show if there is no limit.
const noLimit = 1 << 60

func (h osFacts) bounds() (all []MemoryBound) {
	for line := range strings.Lines(h.readText("proc/self/cgroup")) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case id == "0" && controllers == "":
			all = append(all, h.groupBounds("sys/fs/cgroup", group, "memory.max", "memory.current")...)
		case strings.Contains(","+controllers+",", ",memory,"):
			all = append(all, h.groupBounds("sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes")...)
		}
	}
	size, resident := h.selfMemory()
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &r) == nil && r.Cur < noLimit {
		all = append(all, MemoryBound{"RLIMIT_AS (ulimit -v)", int64(r.Cur), size})
	}
	megabytes := func(name string) int64 {
		n, _ := strconv.ParseInt(h.getenv(name), 10, 64)
		return n << 20
	}
	if most := megabytes("SLURM_MEM_PER_NODE"); most > 0 {
		all = append(all, MemoryBound{"SLURM_MEM_PER_NODE", most, resident})
	}
	if each := megabytes("SLURM_MEM_PER_CPU"); each > 0 {
		if cpus, err := strconv.ParseInt(h.getenv("SLURM_CPUS_ON_NODE"), 10, 64); err == nil && cpus > 0 {
			all = append(all, MemoryBound{"SLURM_MEM_PER_CPU", each * cpus, resident})
		}
	}
	return all
}

// groupBounds returns the limits of a control group and its ancestors. In a container the path may be one of the host, of which the
// container sees only the end. Missing directories are skipped.
func (h osFacts) groupBounds(mount, group, most, used string) (all []MemoryBound) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		limit, err := strconv.ParseInt(h.readText(path.Join(mount, at, most)), 10, 64) // fails for "max" and for missing files
		if err == nil && limit < noLimit {
			now, _ := strconv.ParseInt(h.readText(path.Join(mount, at, used)), 10, 64)
			all = append(all, MemoryBound{fmt.Sprintf("control group %s", at), limit, now})
		}
		if at == "/" {
			return all
		}
	}
}

// selfMemory returns the address space and the resident memory of this process, in bytes.
func (h osFacts) selfMemory() (size, resident int64) {
	var pages [2]int64
	if _, err := fmt.Sscan(h.readText("proc/self/statm"), &pages[0], &pages[1]); err != nil {
		return 0, 0
	}
	page := int64(os.Getpagesize())
	return pages[0] * page, pages[1] * page
}

// readText returns the content of a small file without spaces around it, or "" if it cannot be read.
func (h osFacts) readText(name string) string {
	b, err := os.ReadFile(filepath.Join(h.root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// systemFree returns MemAvailable of /proc/meminfo in bytes.
func systemFree() int64 {
	for line := range strings.Lines(osFacts{root: "/"}.readText("proc/meminfo")) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return assumedFree
}
