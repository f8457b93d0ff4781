package process

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// run starts the child as the leader of a process group, calls started, and waits until the child ends. Then it kills the rest of the
// group and, with Command.Sweep, descendants that have left it. It returns how the child ended and whether a lack of memory ended
// it. The kernel kills the child when the thread that started it ends, so run locks its thread until the child has ended.
func (p *Child) run(c Command, started func(pid int, end func(), err error)) (short Shortage, how error) {
	if c.Sweep {
		return p.runWithKeeper(c, started)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	held := newCage(c.Memory, false)
	err := p.cmd.Start()
	if err != nil {
		started(0, nil, err)
		held.release()
		return NoShortage, err
	}
	pid := p.cmd.Process.Pid
	held.apply(pid)
	if c.AddressSpace > 0 {
		setLimit(pid, unix.RLIMIT_AS, c.AddressSpace)
	}
	end := func() { _ = unix.Kill(-pid, unix.SIGKILL) }
	started(pid, end, nil)
	for { // wait without reaping: while the child is a zombie, no other group can get its number
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	end()
	p.beforeReap()
	how = exitOf(p.cmd.Wait())
	return held.release(), how
}

// setLimit sets a resource limit of a process. An error means that the process has ended.
func setLimit(pid, resource int, most uint64) {
	_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// limitData limits the data segment of a process.
func limitData(pid int, memory int64) { setLimit(pid, unix.RLIMIT_DATA, uint64(memory)) }
