package system

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBounds: the smallest memory limit is the one of the control group or of an ancestor, in both versions of control groups, or of Slurm.
// The test also checks that the process may open as many files as its hard limit allows.
func TestBounds(t *testing.T) {
	two := map[string]string{
		"proc/self/cgroup": "0::/slurm/job_7/step_0\n", "proc/self/statm": "1000 10 0",
		"sys/fs/cgroup/slurm/job_7/step_0/memory.max": "max", "sys/fs/cgroup/slurm/job_7/step_0/memory.current": "5",
		"sys/fs/cgroup/slurm/job_7/memory.max": "4000000000", "sys/fs/cgroup/slurm/job_7/memory.current": "1000000000",
		"sys/fs/cgroup/slurm/memory.max": "9000000000", "sys/fs/cgroup/slurm/memory.current": "7000000000",
	}
	one := map[string]string{
		"proc/self/cgroup": "11:cpu,cpuacct:/x\n9:memory:/docker/abc\n",
		"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "9223372036854771712",
		"sys/fs/cgroup/memory/docker/memory.limit_in_bytes":     "2000000000", "sys/fs/cgroup/memory/docker/memory.usage_in_bytes": "500000000",
	}
	container := map[string]string{"proc/self/cgroup": "0::/kubepods/pod1/c1\n", // a path of the host, which is not visible in the container
		"sys/fs/cgroup/memory.max": "3000000000", "sys/fs/cgroup/memory.current": "1"}
	for _, c := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		want  string // name of the limit
		free  int64  // bytes that are free below it
	}{
		{"version 2", two, nil, "control group /slurm", 2000000000},
		{"version 1", one, nil, "control group /docker", 1500000000},
		{"in a container", container, nil, "control group /", 2999999999},
		{"Slurm", two, map[string]string{"SLURM_MEM_PER_NODE": "100"}, "SLURM_MEM_PER_NODE", 100<<20 - int64(10*os.Getpagesize())},
		{"Slurm by processor", container, map[string]string{"SLURM_MEM_PER_CPU": "64", "SLURM_CPUS_ON_NODE": "4"}, "SLURM_MEM_PER_CPU", 256 << 20},
	} {
		root := t.TempDir()
		for name, text := range maps.All(c.files) {
			path := filepath.Join(root, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, ok := SmallestBound(osFacts{root, func(name string) string { return c.env[name] }}.bounds())
		if !ok || got.What != c.want || got.Free() != c.free {
			t.Errorf("%s: got limit %+v with %d bytes free, want %s with %d", c.name, got, got.Free(), c.want, c.free)
		}
	}
	if soft, hard := OpenFiles(); soft == 0 || soft != hard {
		t.Errorf("%d files may be open, want the hard limit %d", soft, hard)
	}
}

// TestAddressSpace: MemoryBounds contains a limit on the address space.
func TestAddressSpace(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &before); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 40
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: before.Max}); err != nil {
		t.Skipf("the address space is limited already: %v", err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_AS, &before) })
	for _, b := range MemoryBounds() {
		if b.What == "RLIMIT_AS (ulimit -v)" {
			if b.Most != most || b.Used < 1<<20 {
				t.Errorf("got %+v, want the limit %d and at least 1 MiB used", b, most)
			}
			return
		}
	}
	t.Errorf("RLIMIT_AS is missing in %+v", MemoryBounds())
}
