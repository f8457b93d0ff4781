package exec

import (
	"log/slog"

	"latentbeam/internal/limits"
)

// cage bounds the memory of a program: of it and all that it starts by a control group where one can be made, else of
// each process by a resource limit. It tells whether the system has killed the program for want of memory.
type cage struct {
	group *limits.Group // nil: there is none
	kills int64         // on this host before the program began
}

// confine bounds the memory of a process that has just been started; 0 bounds nothing.
func confine(pid int, memory int64) cage {
	c := cage{kills: limits.Kills()}
	if memory == 0 {
		return c
	}
	group, err := limits.NewGroup(memory, pid)
	if err == nil {
		c.group = group
		slog.Debug("the memory of a program is bounded", "by", "control group "+group.Dir(), "bytes", memory)
		return c
	}
	limitData(pid, memory)
	slog.Debug("the memory of each process of a program is bounded", "by", "RLIMIT_DATA", "bytes", memory, "no_control_group", err)
	return c
}

// How memory has ended a program.
type shortage int

const (
	enough   shortage = iota
	ownBound          // the bound of the program itself
	hostFull          // processes of the host were killed meanwhile, it may be one of them
)

// open ends what is left in the cage.
func (c cage) open() shortage {
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
