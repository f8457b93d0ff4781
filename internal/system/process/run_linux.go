package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// run starts the child as the leader of a process group and calls started. When the child has ended, run ends the
// rest of its group and processes that have left the group but have the mark, a variable of their environment, and returns
// how it ended, and whether for want of memory. The child dies with this process: for that the thread that started it
// must live as long as it. It calls reap before the number of the group may become another's.
func run(cmd *exec.Cmd, c Command, mark string, started func(error), reap func()) (short Shortage, how error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	held := newCage(c.Memory)
	err := cmd.Start()
	if err == nil {
		held.hold(cmd.Process.Pid)
		if c.AddressSpace > 0 {
			limit(cmd.Process.Pid, unix.RLIMIT_AS, c.AddressSpace)
		}
	}
	started(err)
	if err != nil {
		held.open()
		return Enough, err
	}
	for { // it stays a zombie, so that nobody else can have the number of its group
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	end(cmd)
	for range maxSweeps {
		if mark == "" || !endMarked(mark) {
			break
		}
	}
	reap()
	how = cmd.Wait()
	return held.open(), how
}

// limit bounds a resource of a process. One that has ended already needs no limit.
func limit(pid, resource int, most uint64) {
	_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// limitData bounds the data of a process.
func limitData(pid int, memory int64) { limit(pid, unix.RLIMIT_DATA, uint64(memory)) }

// maxSweeps bounds the search for processes that a child has left, since one may start another meanwhile.
const maxSweeps = 10

// endMarked kills all processes whose environment has the mark, and reports whether there were any.
func endMarked(mark string) (found bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range files {
		env, err := os.ReadFile(name)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), mark) {
			continue // of another user, gone, or a zombie
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			found = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}

// end kills all processes of a child's group.
func end(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
