package exec

import (
	osexec "os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says why this system cannot run programs, nil: it can.
func supported() error { return nil }

// run starts the program as the leader of a process group and calls started. When the program has ended, run ends the
// rest of its group, and returns how it ended. The program dies with this process: for that the thread that started it
// must live as long as it.
func run(cmd *osexec.Cmd, memory int64, started func(error)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if err == nil && memory > 0 {
		limit := &unix.Rlimit{Cur: uint64(memory), Max: uint64(memory)}
		_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, limit, nil) // one that has ended needs no limit
	}
	started(err)
	if err != nil {
		return err
	}
	for { // it stays a zombie, so that nobody else can have the number of its group
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	end(cmd.Process.Pid)
	return cmd.Wait()
}

// end kills all processes of a group.
func end(group int) { _ = unix.Kill(-group, unix.SIGKILL) }

// room returns the bytes that are free for files in a directory, 0 where there is none.
func room(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * s.Bsize
}
