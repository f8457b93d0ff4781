//go:build !unix

package exectest

import osexec "os/exec"

// leave does nothing: this system has no groups of processes.
func leave(*osexec.Cmd) {}
