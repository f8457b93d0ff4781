//go:build unix

package exectest

import (
	osexec "os/exec"
	"syscall"
)

// leave lets a process leave the group of this one.
func leave(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
