//go:build unix && !linux

package process

import (
	"syscall"
)

// run starts the child as the leader of a process group, calls started, and waits until the child ends. Then it kills the rest of the
// group. On this system it cannot limit the memory of a child or find processes that have left the group.
func (p *Child) run(_ Command, started func(pid int, end func(), err error)) (Shortage, error) {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		started(0, nil, err)
		return NoShortage, err
	}
	end := func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	started(p.cmd.Process.Pid, end, nil)
	how := p.cmd.Wait()
	end()
	p.beforeReap()
	return NoShortage, exitOf(how)
}

func limitData(int, int64) {}
