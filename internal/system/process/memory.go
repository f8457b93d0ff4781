package process

import (
	"log/slog"

	"latentbeam/internal/system"
)

// cage bounds the memory of a child: of it and all that it starts by a control group where one can be made, else of
// each process by a resource limit. It tells whether the system has killed the child for want of memory.
type cage struct {
	memory int64         // bytes; 0: no bound
	group  *system.Group // nil: there is none
	bound  bool          // the group bounds memory
	reason error         // why it does not
	kills  int64         // on this host before the child began
}

// newCage makes the bound of a child that is about to start; 0 bounds nothing. With sweep there is a control group also without a
// bound, where one can be made: none of its processes can leave it.
func newCage(memory int64, sweep bool) *cage {
	c := &cage{memory: memory, kills: system.GroupKills()}
	if memory > 0 {
		c.group, c.reason = system.NewGroup(memory)
		c.bound = c.group != nil
	}
	if sweep && c.group == nil {
		c.group, _ = system.NewGroup(0)
	}
	return c
}

// hold bounds the memory of a process that has just been started.
func (c *cage) hold(pid int) {
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

// Shortage says how memory has ended a child.
type Shortage int

// Kinds of Shortage.
const (
	Enough   Shortage = iota
	OwnBound          // the bound of the child itself
	HostFull          // processes of the host were killed meanwhile, the child may be one of them
)

// open ends what is left in the cage.
func (c *cage) open() Shortage {
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
	return Enough
}
