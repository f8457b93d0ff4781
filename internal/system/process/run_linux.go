package process

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// run starts the child as the leader of a process group and calls started. When the child has ended, run ends the rest of its
// group, with Command.Sweep also what has left it, and returns how it ended, and whether for want of memory. The child dies with
// this process: for that the thread that started it must live as long as it.
func (p *Child) run(c Command, started func(pid int, end func(), err error)) (short Shortage, how error) {
	if c.Sweep {
		return p.runKept(c, started)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	held := newCage(c.Memory, false)
	err := p.cmd.Start()
	if err != nil {
		started(0, nil, err)
		held.open()
		return Enough, err
	}
	pid := p.cmd.Process.Pid
	held.hold(pid)
	if c.AddressSpace > 0 {
		limit(pid, unix.RLIMIT_AS, c.AddressSpace)
	}
	end := func() { _ = unix.Kill(-pid, unix.SIGKILL) }
	started(pid, end, nil)
	for { // it stays a zombie, so that nobody else can have the number of its group
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	end()
	p.reap()
	how = exitOf(p.cmd.Wait())
	return held.open(), how
}

// limit bounds a resource of a process. One that has ended already needs no limit.
func limit(pid, resource int, most uint64) {
	_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// limitData bounds the data of a process.
func limitData(pid int, memory int64) { limit(pid, unix.RLIMIT_DATA, uint64(memory)) }
