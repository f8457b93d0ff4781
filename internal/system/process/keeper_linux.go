package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A keeper is a process between this process and a child whose Command has Sweep. It runs this program in another role. It is the
// subreaper of the child: a descendant whose parents have ended becomes a child of the keeper, even if it has left the child's
// group and cleared its environment. Each child has its own keeper, because one process could not tell the orphans of several
// programs and hooks apart. The keeper kills all of them when the child ends, when it is told to, and when this process dies.
//
// The keeper gets the descriptors of the child, then the pipe control, whose closing tells it to end, then the pipe report. It
// reports two messages. The first has the number of the child's process and 0, or 0 and the error of the start. The second has
// the child's wait status and the number of processes that it could not kill. A message is a pair of little-endian uint32.

// keeperName is the first argument of a keeper. The number of descriptors of the child, its path and its arguments follow.
const keeperName = "latentbeam-keeper"

// init makes this process a keeper if it was started as one. It runs before main, in every program that contains this package.
func init() {
	if len(os.Args) > 3 && os.Args[0] == keeperName {
		os.Exit(runKeeper(os.Args[1], os.Args[2], os.Args[3:]))
	}
}

// runKeeper runs a keeper and returns its exit status. It runs on the first thread of the process, which lives as long as the process:
// the child gets SIGKILL when the thread that started it ends.
func runKeeper(count, path string, args []string) (status int) {
	n, err := strconv.Atoi(count)
	if err != nil || unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil {
		return 1
	}
	control, report := os.NewFile(uintptr(n), "control"), os.NewFile(uintptr(n+1), "report")
	unix.CloseOnExec(n)
	unix.CloseOnExec(n + 1)
	files := make([]uintptr, n)
	for i := range files {
		files[i] = uintptr(i)
	}
	// The keeper must not die of signals to the parent of the child. They are caught, because the child would inherit ignored ones.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}})
	for i := range n {
		unix.Close(i) // else the pipes of the child would stay open after it ends
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	if sendReport(report, uint32(pid), uint32(errno)) != nil || err != nil {
		return 1
	}
	child := keptChild{pid: pid}
	go func() {
		_, _ = io.Copy(io.Discard, control)
		child.kill()
	}()
	how := child.reapUntilEnd()
	if sendReport(report, uint32(how), uint32(endChildren())) != nil {
		return 1
	}
	return 0
}

func sendReport(to io.Writer, a, b uint32) error {
	return binary.Write(to, binary.LittleEndian, [2]uint32{a, b})
}

// keptChild is the child that a keeper started.
type keptChild struct {
	pid    int
	mu     sync.Mutex
	reaped bool // then another group may have its number
}

// kill kills the child and its group.
func (k *keptChild) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.reaped {
		_ = unix.Kill(-k.pid, unix.SIGKILL)
	}
}

// reapUntilEnd reaps all processes that end until the child has ended, and returns the child's status.
func (k *keptChild) reapUntilEnd() (status unix.WaitStatus) {
	for !k.reaped {
		if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil && err != unix.EINTR {
			return status
		}
		k.mu.Lock()
		ended, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		k.reaped = err == nil && ended == k.pid
		k.mu.Unlock()
	}
	return status
}

// endChildren kills and reaps all descendants of this process. After killDelay it gives up and returns how many are left.
func endChildren() (left int) {
	for late := time.Now().Add(killDelay); ; time.Sleep(time.Millisecond) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err == unix.ECHILD {
				return 0
			}
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
		all := descendants(os.Getpid())
		if time.Now().After(late) {
			return max(1, len(all))
		}
		for _, pid := range all {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// descendants returns the numbers of all descendants of a process, parents first.
func descendants(of int) (all []int) {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // the name before ")" may contain spaces
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all = children[of]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// runWithKeeper is like run for a child with a keeper.
func (p *Child) runWithKeeper(c Command, started func(pid int, end func(), err error)) (Shortage, error) {
	held := newCage(c.Memory, true)
	keeper, control, report, pid, err := startKeeper(p.cmd)
	if err != nil {
		started(0, nil, err)
		held.release()
		return NoShortage, err
	}
	defer report.Close()
	held.apply(pid)
	if c.AddressSpace > 0 {
		setLimit(pid, unix.RLIMIT_AS, c.AddressSpace)
	}
	p.cmd = keeper
	started(pid, func() { _ = control.Close() }, nil)
	var end [2]uint32
	err = binary.Read(report, binary.LittleEndian, &end)
	p.beforeReap()
	_ = control.Close() // may be closed already
	how := keeper.Wait()
	if err != nil { // the keeper did not report the end
		how = fmt.Errorf("its keeper has ended before it: %w", errors.Join(exitOf(how), err))
		return held.release(), how
	}
	if end[1] > 0 {
		slog.Warn("processes that a program has started are left over: they do not end though they were killed",
			"program", c.Path, "processes", end[1])
	}
	switch status := unix.WaitStatus(end[0]); {
	case status.Signaled():
		how = &ExitError{-1, status.Signal()}
	case status.ExitStatus() != 0:
		how = &ExitError{Status: status.ExitStatus()}
	}
	return held.release(), how
}

// startKeeper starts a keeper for cmd. It returns the pipes to the keeper and the number of the child's process.
func startKeeper(cmd *exec.Cmd) (keeper *exec.Cmd, control, report *os.File, pid int, err error) {
	if cmd.Err != nil {
		return nil, nil, nil, 0, cmd.Err
	}
	their, control, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, 0, err
	}
	report, theirReport, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, 0, errors.Join(err, their.Close(), control.Close())
	}
	defer func() {
		their.Close()
		theirReport.Close()
		if err != nil {
			control.Close()
			report.Close()
		}
	}()
	keeper = &exec.Cmd{Path: "/proc/self/exe", Dir: cmd.Dir, Env: cmd.Env, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		WaitDelay: cmd.WaitDelay, ExtraFiles: append(cmd.ExtraFiles[:len(cmd.ExtraFiles):len(cmd.ExtraFiles)], their, theirReport),
		Args:        append([]string{keeperName, strconv.Itoa(3 + len(cmd.ExtraFiles)), cmd.Path}, cmd.Args...),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err = keeper.Start(); err != nil {
		return nil, nil, nil, 0, err
	}
	theirReport.Close() // so that Read gets io.EOF when the keeper ends
	var begin [2]uint32
	if err = binary.Read(report, binary.LittleEndian, &begin); err == nil && begin[1] != 0 {
		err = &os.PathError{Op: "fork/exec", Path: cmd.Path, Err: syscall.Errno(begin[1])}
	}
	if err != nil {
		control.Close()
		return nil, nil, nil, 0, errors.Join(err, exitOf(keeper.Wait()))
	}
	return keeper, control, report, int(begin[0]), nil
}
