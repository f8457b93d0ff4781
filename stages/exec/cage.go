package exec

import (
	"log/slog"

	"latentbeam/internal/limits"
)

// cage bounds the memory of a program: of it and all that it starts by a control group where one can be made, else of
// each process by a resource limit. It tells whether the system has killed the program for want of memory.
type cage struct {
	memory int64         // bytes; 0: no bound
	group  *limits.Group // nil: there is none
	reason error         // why
	kills  int64         // on this host before the program began
}

// newCage makes the bound of a program that is about to start; 0 bounds nothing.
func newCage(memory int64) *cage {
	c := &cage{memory: memory, kills: limits.Kills()}
	if memory > 0 {
		c.group, c.reason = limits.NewGroup(memory)
	}
	return c
}

// hold bounds the memory of a process that has just been started.
func (c *cage) hold(pid int) {
	if c.group != nil {
		if c.reason = c.group.Add(pid); c.reason == nil {
			slog.Debug("the memory of a program is bounded", "by", "control group "+c.group.Dir(), "bytes", c.memory)
			return
		}
	}
	if c.memory > 0 {
		limitData(pid, c.memory)
		slog.Debug("the memory of each process of a program is bounded", "by", "RLIMIT_DATA", "bytes", c.memory,
			"no_control_group", c.reason)
	}
}

// How memory has ended a program.
type shortage int

const (
	enough   shortage = iota
	ownBound          // the bound of the program itself
	hostFull          // processes of the host were killed meanwhile, it may be one of them
)

// open ends what is left in the cage.
func (c *cage) open() shortage {
	if c.group == nil {
		if limits.Kills() > c.kills {
			return hostFull
		}
		return enough
	}
	killed := c.group.Kills()
	if err := c.group.Remove(); err != nil {
		slog.Warn("a control group is left over", "dir", c.group.Dir(), "error", err)
	}
	if killed > 0 {
		return ownBound
	}
	return enough
}
