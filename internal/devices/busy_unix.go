//go:build unix

package devices

import (
	"syscall"
	"time"
)

// busy returns the processor time that this process has used.
func busy() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
