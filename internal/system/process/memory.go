package process

import (
	"log/slog"

	"latentbeam/internal/system"
)

// memoryCage limits the memory of a child. It uses a control group for the child and its descendants together if one can be created, else
// a resource limit for each process. It finds out whether the kernel has killed the child for lack of memory.
type memoryCage struct {
	memory int64         // limit in bytes; 0: none
	group  *system.Group // nil: no group
	bound  bool          // the group limits memory
	reason error         // why the group does not limit memory
	kills  int64         // system.GroupKills before the child started
}

// newCage prepares the limit for a child before it starts; memory 0 means no limit. With sweep it creates a control group even
// without a limit, if it can, because processes cannot leave such a group.
func newCage(memory int64, sweep bool) *memoryCage {
	c := &memoryCage{memory: memory, kills: system.GroupKills()}
	if memory > 0 {
		c.group, c.reason = system.NewGroup(memory)
		c.bound = c.group != nil
	}
	if sweep && c.group == nil {
		c.group, _ = system.NewGroup(0)
	}
	return c
}

// apply applies the limit to a process that was just started.
func (c *memoryCage) apply(pid int) {
	if c.group != nil {
		if err := c.group.Add(pid); err != nil {
			c.reason, c.bound = err, false
		}
	}
	if c.bound {
		slog.Debug("the memory of a program is bounded", "by", "control group "+c.group.Dir(), "bytes", c.memory)
		return
	}
	if c.memory > 0 {
		limitData(pid, c.memory)
		slog.Debug("the memory of each process of a program is bounded", "by", "RLIMIT_DATA", "bytes", c.memory,
			"no_control_group", c.reason)
	}
}

// Shortage is whether a lack of memory ended a child.
type Shortage int

// Kinds of Shortage.
const (
	NoShortage Shortage = iota
	OwnBound            // the child exceeded its own limit
	HostFull            // the kernel killed processes of the host meanwhile; the child may be one of them
)

// release kills the remaining processes of the group, removes it and returns whether memory ended the child.
func (c *memoryCage) release() Shortage {
	killed := system.GroupKills() - c.kills
	if c.group != nil {
		if c.group.CountsKills() {
			killed = c.group.Kills()
		}
		if err := c.group.Remove(); err != nil {
			slog.Warn("a control group is left over", "dir", c.group.Dir(), "error", err)
		}
	}
	switch {
	case killed > 0 && c.bound:
		return OwnBound
	case killed > 0:
		return HostFull
	}
	return NoShortage
}
