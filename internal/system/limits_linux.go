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

// MemoryBounds lists what bounds the memory of this process.
func MemoryBounds() []MemoryBound { return system{"/", os.Getenv}.bounds() }

// OpenFiles is how many files this process may have open. The Go runtime has raised it to the hard limit.
func OpenFiles() (soft, hard uint64) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0, 0
	}
	return r.Cur, r.Max
}

// system is where the system shows things.
type system struct {
	root   string
	getenv func(string) string
}

// noLimit is about what version 1 shows where there is none.
const noLimit = 1 << 60

func (h system) bounds() (all []MemoryBound) {
	for line := range strings.Lines(h.text("proc/self/cgroup")) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case id == "0" && controllers == "":
			all = append(all, h.groups("sys/fs/cgroup", group, "memory.max", "memory.current")...)
		case strings.Contains(","+controllers+",", ",memory,"):
			all = append(all, h.groups("sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes")...)
		}
	}
	size, resident := h.own()
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

// groups lists the bounds of a control group and of those that it is in. In a container the path may be that of the host,
// of which only the end of the tree is to be seen.
func (h system) groups(mount, group, most, used string) (all []MemoryBound) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		limit, err := strconv.ParseInt(h.text(path.Join(mount, at, most)), 10, 64) // else "max", or it is not there
		if err == nil && limit < noLimit {
			now, _ := strconv.ParseInt(h.text(path.Join(mount, at, used)), 10, 64)
			all = append(all, MemoryBound{fmt.Sprintf("control group %s", at), limit, now})
		}
		if at == "/" {
			return all
		}
	}
}

// own is the address space and the resident memory of this process, in bytes.
func (h system) own() (size, resident int64) {
	var pages [2]int64
	if _, err := fmt.Sscan(h.text("proc/self/statm"), &pages[0], &pages[1]); err != nil {
		return 0, 0
	}
	page := int64(os.Getpagesize())
	return pages[0] * page, pages[1] * page
}

// text is what is in a small file, "" where it is not there.
func (h system) text(name string) string {
	b, err := os.ReadFile(filepath.Join(h.root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// systemFree reads what Linux calls MemAvailable.
func systemFree() int64 {
	for line := range strings.Lines(system{root: "/"}.text("proc/meminfo")) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return assumed
}
