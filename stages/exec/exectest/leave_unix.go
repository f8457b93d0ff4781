//go:build unix

package exectest

import (
	osexec "os/exec"
	"syscall"
)

// leave makes a process leave this process's group.
func leave(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
