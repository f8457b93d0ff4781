//go:build unix && !linux

package exec

import (
	osexec "os/exec"
	"syscall"
)

// supported says why this system cannot run programs, nil: it can.
func supported() error { return nil }

// run starts the program as the leader of a process group and calls started. When the program has ended, run ends the
// rest of its group, and returns how it ended. This system has no limit of memory that can be set from outside, and does
// not tell which processes have left the group.
func run(cmd *osexec.Cmd, _ int64, _ string, started func(error)) (shortage, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	started(err)
	if err != nil {
		return enough, err
	}
	err = cmd.Wait()
	end(cmd.Process.Pid)
	return enough, err
}

func limitData(int, int64) {}

// end kills all processes of a group.
func end(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }

// room returns 0: this system has no directory in memory that everybody may use.
func room(string) int64 { return 0 }
