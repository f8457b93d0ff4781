//go:build unix && !linux

package process

import (
	"syscall"
)

// run starts the child as the leader of a process group and calls started. When the child has ended, run ends the
// rest of its group, and returns how it ended. This system has no limit of memory that can be set from outside, and does
// not tell which processes have left the group.
func (p *Child) run(_ Command, started func(pid int, end func(), err error)) (Shortage, error) {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		started(0, nil, err)
		return Enough, err
	}
	end := func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	started(p.cmd.Process.Pid, end, nil)
	how := p.cmd.Wait()
	end()
	p.reap()
	return Enough, exitOf(how)
}

func limitData(int, int64) {}
