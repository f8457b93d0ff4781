package system

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestParent: parent finds the control group in which this process can create others. The files are those of real systems.
func TestParent(t *testing.T) {
	const own = "sys/fs/cgroup/user.slice/run.scope"
	pid := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // path of the group, or part of the error
	}{
		{"its own group", map[string]string{own + "/cgroup.subtree_control": "memory pids", own + "/cgroup.procs": ""}, own},
		{"the parent of its group", map[string]string{"sys/fs/cgroup/user.slice/cgroup.subtree_control": "cpu memory",
			"sys/fs/cgroup/user.slice/cgroup.procs": ""}, "sys/fs/cgroup/user.slice"},
		{"its own group, without other processes", map[string]string{own + "/cgroup.subtree_control": "", own + "/cgroup.controllers": "memory",
			own + "/cgroup.procs": pid}, own},
		{"its own group, with another process", map[string]string{own + "/cgroup.subtree_control": "", own + "/cgroup.controllers": "memory",
			own + "/cgroup.procs": pid + "\n1"}, "neither the control group /user.slice/run.scope nor its parent"},
		{"control groups of version 1", map[string]string{"proc/self/cgroup": "4:memory:/x\n0::/\n", "sys/fs/cgroup/cgroup.controllers": ""}, errNoGroups.Error()},
	} {
		h := osFacts{root: t.TempDir(), getenv: os.Getenv}
		all := map[string]string{"proc/self/cgroup": "0::/user.slice/run.scope\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory pids"}
		for _, more := range []map[string]string{all, c.files} {
			for name, text := range more {
				path := filepath.Join(h.root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := h.parent()
		if err == nil && got != filepath.Join(h.root, c.want) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

// TestPlainGroup: a group without limits is created if the user may write to the group of this process, its parent, or their copy below
// unified, where systems with groups of version 1 mount version 2. A group of version 1 is not used.
func TestPlainGroup(t *testing.T) {
	// own: a group that can be written to
	for own, want := range map[string]bool{"sys/fs/cgroup/a/b": true, "sys/fs/cgroup/a": true, "sys/fs/cgroup/unified/a/b": true, "sys/fs/cgroup/memory/a/b": false} {
		h := osFacts{root: t.TempDir(), getenv: os.Getenv}
		for name, text := range map[string]string{"proc/self/cgroup": "4:memory:/x\n0::/a/b\n", own + "/cgroup.procs": ""} {
			path := filepath.Join(h.root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		g, err := h.newGroup(0)
		if want != (err == nil) || want && (filepath.Dir(g.Dir()) != filepath.Join(h.root, own) || g.CountsKills()) {
			t.Errorf("only %s can be written to: got %+v, %v; want a group: %v", own, g, err, want)
		}
	}
}

// TestKills: kills returns how often the kernel killed a process for lack of memory: in the control group of this process or, if it has none,
// on the host.
func TestKills(t *testing.T) {
	h := osFacts{root: t.TempDir(), getenv: os.Getenv}
	write := func(name, text string) {
		path := filepath.Join(h.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/vmstat", "pgfault 3\noom_kill 7\n")
	if n := h.kills(); n != 7 {
		t.Errorf("without a group: got %d kills, want the host's 7", n)
	}
	write("proc/self/cgroup", "0::/a\n")
	write("sys/fs/cgroup/cgroup.controllers", "memory")
	write("sys/fs/cgroup/a/memory.events", "oom 5\noom_kill 2\noom_group_kill 1\n")
	if n := h.kills(); n != 2 {
		t.Errorf("with a group: got %d kills, want its 2", n)
	}
}
