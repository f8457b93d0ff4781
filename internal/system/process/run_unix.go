//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// run starts the child as the leader of a process group and calls started. When the child has ended, run ends the
// rest of its group, and returns how it ended. This system has no limit of memory that can be set from outside, and does
// not tell which processes have left the group.
func run(cmd *exec.Cmd, _ Command, _ string, started func(error), reap func()) (Shortage, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	started(err)
	if err != nil {
		return Enough, err
	}
	err = cmd.Wait()
	end(cmd)
	reap()
	return Enough, err
}

func limitData(int, int64) {}

// end kills all processes of a child's group.
func end(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
