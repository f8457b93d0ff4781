package cpu

import (
	"syscall"

	"golang.org/x/sys/cpu"
)

// On Linux a process must ask for the AMX state: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
const (
	requestPermission = 0x1023
	tileData          = 18
)

// hasTiles reports whether this process may use AMX with pairs of bf16.
func hasTiles() bool {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 {
		return false
	}
	_, _, err := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return err == 0
}
