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

// Group is a control group. It may limit the memory of all its processes together.
type Group struct{ dir string }

// ParentGroup returns the directory of a control group in which this process can create groups with a memory limit: its own
// group or the parent of that. The error says why there is none.
func ParentGroup() (string, error) { return osFacts{"/", os.Getenv}.parent() }

func (h osFacts) parent() (dir string, err error) {
	own := h.ownGroup()
	if own == "" {
		return "", errNoGroups
	}
	for _, at := range slices.Compact([]string{own, path.Dir(own)}) {
		if dir = filepath.Join(h.root, groupsRoot, at); h.delegated(dir) {
			return dir, nil
		}
	}
	if dir = filepath.Join(h.root, groupsRoot, own); h.soleProcess(dir) {
		return dir, nil
	}
	return "", fmt.Errorf("neither the control group %s nor its parent lets this user create groups with a memory limit; "+
		"systemd-run --user --scope -p Delegate=yes starts a command in one that does", own)
}

// groupsRoot is where control groups of version 2 are mounted.
const groupsRoot = "sys/fs/cgroup"

// ownGroup returns the path of this process's control group of version 2, or "" if such groups do not control memory.
func (h osFacts) ownGroup() string {
	for line := range strings.Lines(h.readText("proc/self/cgroup")) {
		if own, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found &&
			h.hasWord(filepath.Join(groupsRoot, "cgroup.controllers"), "memory") {
			return path.Clean("/" + own)
		}
	}
	return ""
}

// hybridRoot is where groups of version 2 are mounted on systems where groups of version 1 control memory.
const hybridRoot = "sys/fs/cgroup/unified"

// newUnboundedGroup creates a control group without limits, so that all its processes can be killed together. It creates it in any group of
// version 2 near this process that the user may write.
func (h osFacts) newUnboundedGroup() (*Group, error) {
	for line := range strings.Lines(h.readText("proc/self/cgroup")) {
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

func (h osFacts) hasWord(name, word string) bool {
	return slices.Contains(strings.Fields(h.readText(name)), word)
}

// delegated reports whether this user can create groups with a memory limit in dir. Moving a process into a group also needs
// write access to the list of processes of dir.
func (h osFacts) delegated(dir string) bool {
	rest, _ := filepath.Rel(h.root, dir)
	return h.hasWord(filepath.Join(rest, "cgroup.subtree_control"), "memory") && writable(dir) && writable(filepath.Join(dir, "cgroup.procs"))
}

func writable(name string) bool { return unix.Access(name, unix.W_OK) == nil }

// soleProcess reports whether dir is delegated to this user and this process is the only one in it.
func (h osFacts) soleProcess(dir string) bool {
	rest, _ := filepath.Rel(h.root, dir)
	return h.hasWord(filepath.Join(rest, "cgroup.controllers"), "memory") && writable(dir) &&
		writable(filepath.Join(dir, "cgroup.subtree_control")) &&
		h.readText(filepath.Join(rest, "cgroup.procs")) == strconv.Itoa(os.Getpid())
}

// ownLeaf is the name of the group into which this process moves itself, because a group with processes cannot have children with
// memory limits.
const ownLeaf = "latentbeam"

// NewGroup creates a control group whose processes together may use memory bytes and no swap. If the kernel kills one of them for
// lack of memory, it kills all. With 0 there is no limit, and this process stays in its own group.
func NewGroup(memory int64) (*Group, error) {
	return osFacts{"/", os.Getenv}.newGroup(memory)
}

func (h osFacts) newGroup(memory int64) (*Group, error) {
	if memory == 0 {
		return h.newUnboundedGroup()
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
		_ = write(dir, "memory.swap.max", "0")  // fails on systems without swap
		_ = write(dir, "memory.oom.group", "1") // exists since Linux 4.19
	}
	if err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// Add moves a process into the group. Processes that it starts later are in the group too.
func (g *Group) Add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// Dir returns the directory of the group.
func (g *Group) Dir() string { return g.dir }

// Kills returns how many processes of the group the kernel has killed for lack of memory.
func (g *Group) Kills() int64 { return kills(filepath.Join(g.dir, "memory.events")) }

// CountsKills reports whether the kernel counts these kills. It does not in groups without the memory controller.
func (g *Group) CountsKills() bool {
	_, err := os.Stat(filepath.Join(g.dir, "memory.events"))
	return err == nil
}

// Remove kills the remaining processes of the group and removes the group.
func (g *Group) Remove() (err error) {
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) // exists since Linux 5.14
	for range 100 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // a killed process stays in the group until it has ended
	}
	return err
}

// GroupKills returns how many processes of this process's control group, or of the host if it has no group, the kernel has killed
// for lack of memory.
func GroupKills() int64 { return osFacts{"/", os.Getenv}.kills() }

func (h osFacts) kills() int64 {
	if own := h.ownGroup(); own != "" {
		if name := filepath.Join(h.root, groupsRoot, own, "memory.events"); unix.Access(name, unix.R_OK) == nil {
			return kills(name)
		}
	}
	return kills(filepath.Join(h.root, "proc/vmstat"))
}

// kills returns the number after oom_kill in a file, or 0.
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
