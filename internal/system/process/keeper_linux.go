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

// A keeper is a process between this one and a child whose Command has Sweep: this program again, which does nothing else. It is
// the subreaper of the child, so whatever the child starts becomes the keeper's own child once its parents are gone, also where
// it has left the child's group and cleared its environment. One keeper has one child: in this process orphans of several
// programs, and of hooks, could not be told apart. It ends all of them when the child ends, when it is told to, and when this
// process dies.
//
// It gets the descriptors of the child, then the end of a pipe that is closed to tell it to end (control), then one for what it
// reports: the number of the child's process and 0, or 0 and why it was not started; then the child's wait status and how many
// processes could not be ended. Each is a pair of little-endian uint32.

// keeperName is the first argument of a keeper. Behind it come the number of descriptors of the child, its path and its arguments.
const keeperName = "latentbeam-keeper"

// init makes this process a keeper where it was started as one: before main, in every program that has this package.
func init() {
	if len(os.Args) > 3 && os.Args[0] == keeperName {
		os.Exit(keep(os.Args[1], os.Args[2], os.Args[3:]))
	}
}

// keep is the life of a keeper. The thread of init is the first of the process, so that the child dies if the keeper is killed.
func keep(count, path string, args []string) (status int) {
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
	// Signals to the parent of the child are not for the keeper. Ignored ones would stay ignored in the child.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}})
	for i := range n {
		unix.Close(i) // the end of the child's pipes is the child's
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	if send(report, uint32(pid), uint32(errno)) != nil || err != nil {
		return 1
	}
	child := kept{pid: pid}
	go func() {
		_, _ = io.Copy(io.Discard, control)
		child.kill()
	}()
	how := child.await()
	if send(report, uint32(how), uint32(endChildren())) != nil {
		return 1
	}
	return 0
}

func send(to io.Writer, a, b uint32) error {
	return binary.Write(to, binary.LittleEndian, [2]uint32{a, b})
}

// kept is the child of a keeper.
type kept struct {
	pid    int
	mu     sync.Mutex
	reaped bool // the number of its group may be another's
}

// kill kills the child and its group.
func (k *kept) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.reaped {
		_ = unix.Kill(-k.pid, unix.SIGKILL)
	}
}

// await reaps whatever ends until the child has ended, and returns its status.
func (k *kept) await() (status unix.WaitStatus) {
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

// endChildren kills and reaps all descendants of this process, for killDelay at most, and returns how many are left.
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

// descendants lists the processes below one, parents first.
func descendants(of int) (all []int) {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // a name may have blanks
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

// runKept is run with a keeper.
func (p *Child) runKept(c Command, started func(pid int, end func(), err error)) (Shortage, error) {
	held := newCage(c.Memory, true)
	keeper, control, report, pid, err := startKeeper(p.cmd)
	if err != nil {
		started(0, nil, err)
		held.open()
		return Enough, err
	}
	defer report.Close()
	held.hold(pid)
	if c.AddressSpace > 0 {
		limit(pid, unix.RLIMIT_AS, c.AddressSpace)
	}
	p.cmd = keeper
	started(pid, func() { _ = control.Close() }, nil)
	var end [2]uint32
	err = binary.Read(report, binary.LittleEndian, &end)
	p.reap()
	_ = control.Close() // it may be closed already
	how := keeper.Wait()
	if err != nil { // it says nothing
		how = fmt.Errorf("its keeper has ended before it: %w", errors.Join(exitOf(how), err))
		return held.open(), how
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
	return held.open(), how
}

// startKeeper starts a keeper that starts cmd. It returns the ends of its pipes and the number of the child's process.
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
	theirReport.Close() // so that the end of the keeper is the end of the pipe
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
