package system

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a control group with a bound on the memory of all processes in it.
type Group struct{ dir string }

// ParentGroup returns the directory of the control group in which this process may make others with a bound on memory: its
// own, or the one around it. The error says why there is none.
func ParentGroup() (string, error) { return system{"/", os.Getenv}.parent() }

func (h system) parent() (dir string, err error) {
	own := h.ownGroup()
	if own == "" {
		return "", errNoGroups
	}
	for _, at := range slices.Compact([]string{own, path.Dir(own)}) {
		if dir = filepath.Join(h.root, groupsRoot, at); h.delegated(dir) {
			return dir, nil
		}
	}
	if dir = filepath.Join(h.root, groupsRoot, own); h.alone(dir) {
		return dir, nil
	}
	return "", fmt.Errorf("neither the control group %s nor the one around it lets this user make others with a bound on memory; "+
		"systemd-run --user --scope -p Delegate=yes starts a command in one that does", own)
}

// groupsRoot is where control groups of version 2 are mounted.
const groupsRoot = "sys/fs/cgroup"

// ownGroup is the path of this process's control group of version 2, "" where memory is not bounded by it.
func (h system) ownGroup() string {
	for line := range strings.Lines(h.text("proc/self/cgroup")) {
		if own, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found &&
			h.has(filepath.Join(groupsRoot, "cgroup.controllers"), "memory") {
			return path.Clean("/" + own)
		}
	}
	return ""
}

// hybridRoot is where groups of version 2 are mounted beside those of version 1, which then bound memory.
const hybridRoot = "sys/fs/cgroup/unified"

// plain makes a control group that bounds nothing: its processes can be killed as a whole. Any group of version 2 that this user may write will do.
func (h system) plain() (*Group, error) {
	for line := range strings.Lines(h.text("proc/self/cgroup")) {
		own, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !found {
			continue
		}
		own = path.Clean("/" + own)
		for _, root := range []string{groupsRoot, hybridRoot} {
			for _, at := range slices.Compact([]string{own, path.Dir(own)}) {
				dir := filepath.Join(h.root, root, at)
				if !writable(dir) || !writable(filepath.Join(dir, "cgroup.procs")) {
					continue
				}
				if made, err := os.MkdirTemp(dir, "latentbeam-"); err == nil {
					return &Group{made}, nil
				}
			}
		}
	}
	return nil, errNoGroups
}

func (h system) has(name, word string) bool {
	return slices.Contains(strings.Fields(h.text(name)), word)
}

// delegated reports whether this user may make groups in dir, and memory is bounded there. Whoever moves a process needs
// the right to write the list of processes too.
func (h system) delegated(dir string) bool {
	rest, _ := filepath.Rel(h.root, dir)
	return h.has(filepath.Join(rest, "cgroup.subtree_control"), "memory") && writable(dir) && writable(filepath.Join(dir, "cgroup.procs"))
}

func writable(name string) bool { return unix.Access(name, unix.W_OK) == nil }

// alone reports whether this process is the only one in a group that is delegated to it.
func (h system) alone(dir string) bool {
	rest, _ := filepath.Rel(h.root, dir)
	return h.has(filepath.Join(rest, "cgroup.controllers"), "memory") && writable(dir) &&
		writable(filepath.Join(dir, "cgroup.subtree_control")) &&
		h.text(filepath.Join(rest, "cgroup.procs")) == strconv.Itoa(os.Getpid())
}

// ownLeaf is the group below a delegated one into which this process goes, because the kernel shares out memory only from
// groups without processes.
const ownLeaf = "latentbeam"

// NewGroup makes a control group whose processes have at most so many bytes together, and no swap. One that the
// system kills for memory ends all of them. With 0 bytes memory is not bounded, and this process stays in its group.
func NewGroup(memory int64) (*Group, error) {
	return system{"/", os.Getenv}.newGroup(memory)
}

func (h system) newGroup(memory int64) (*Group, error) {
	if memory == 0 {
		return h.plain()
	}
	write := func(dir, name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0) }
	parent, err := h.parent()
	if err != nil {
		return nil, err
	}
	if !h.delegated(parent) {
		leaf := filepath.Join(parent, ownLeaf)
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		err := write(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
		if err == nil {
			err = write(parent, "cgroup.subtree_control", "+memory")
		}
		if err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(parent, "latentbeam-")
	if err != nil {
		return nil, err
	}
	g := &Group{dir}
	if err = write(dir, "memory.max", strconv.FormatInt(memory, 10)); err == nil {
		_ = write(dir, "memory.swap.max", "0")  // where there is swap
		_ = write(dir, "memory.oom.group", "1") // since Linux 4.19
	}
	if err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// Add puts a process into the group. Those that it starts from then on are in it too.
func (g *Group) Add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// Dir is the directory of the group.
func (g *Group) Dir() string { return g.dir }

// Kills is how many processes of the group the system has killed for want of memory.
func (g *Group) Kills() int64 { return kills(filepath.Join(g.dir, "memory.events")) }

// CountsKills reports whether the system counts them: in groups of version 2 without the controller of memory it does not.
func (g *Group) CountsKills() bool {
	_, err := os.Stat(filepath.Join(g.dir, "memory.events"))
	return err == nil
}

// Remove kills what is left in the group, and removes it.
func (g *Group) Remove() (err error) {
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) // since Linux 5.14
	for range 100 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // processes that end are still counted
	}
	return err
}

// GroupKills is how many processes of this process's control group, or where it has none of the host, the system has killed for
// want of memory.
func GroupKills() int64 { return system{"/", os.Getenv}.kills() }

func (h system) kills() int64 {
	if own := h.ownGroup(); own != "" {
		if name := filepath.Join(h.root, groupsRoot, own, "memory.events"); unix.Access(name, unix.R_OK) == nil {
			return kills(name)
		}
	}
	return kills(filepath.Join(h.root, "proc/vmstat"))
}

// kills reads the line oom_kill of a file.
func kills(name string) int64 {
	text, _ := os.ReadFile(name)
	for line := range strings.Lines(string(text)) {
		if n, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
			count, _ := strconv.ParseInt(n, 10, 64)
			return count
		}
	}
	return 0
}
