package devices

import (
	"time"

	"golang.org/x/sys/unix"
)

// busy returns the processor time that this process has used. Unlike getrusage, the clock includes the current time slices of all
// threads, so that intervals of milliseconds are exact.
func busy() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
