package exec

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says why this system cannot run programs, nil: it can.
func supported() error { return nil }

// run starts the program as the leader of a process group and calls started. When the program has ended, run ends the
// rest of its group and those that have left the group but have the mark, a variable of their environment, and returns
// how it ended, and whether for want of memory. The program dies with this process: for that the thread that started it
// must live as long as it.
func run(cmd *osexec.Cmd, memory int64, mark string, started func(error)) (short shortage, how error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	held := newCage(memory)
	err := cmd.Start()
	if err == nil {
		held.hold(cmd.Process.Pid)
	}
	started(err)
	if err != nil {
		held.open()
		return enough, err
	}
	for { // it stays a zombie, so that nobody else can have the number of its group
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	end(cmd.Process.Pid)
	for range maxSweeps {
		if !endMarked(mark) {
			break
		}
	}
	how = cmd.Wait()
	return held.open(), how
}

// limitData bounds the data of a process.
func limitData(pid int, memory int64) {
	limit := &unix.Rlimit{Cur: uint64(memory), Max: uint64(memory)}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, limit, nil) // one that has ended needs no limit
}

// maxSweeps bounds the search for processes that a program has left, since one may start another meanwhile.
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
