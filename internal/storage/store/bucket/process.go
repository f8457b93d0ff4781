package bucket

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// process names this process so that others of the same machine can see whether it lives: the machine's start, the
// namespace of process numbers, the number, the process's start. It is empty where the system does not say them.
func process() string {
	place, pid := place(), os.Getpid()
	start := started(pid)
	if place == "" || start == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %s", place, pid, start)
}

// died reports whether a holder is known to be dead: it was a process beside this one, and is not there any more.
func died(r record) bool {
	here := place()
	if here == "" || !strings.HasPrefix(r.Process, here+" ") {
		return false
	}
	return r.Process != fmt.Sprintf("%s %d %s", here, r.PID, started(r.PID))
}

// place is where process numbers mean the same.
func place() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	if err != nil || err2 != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + space
}

// started is when a process began, in ticks of the machine; "" for a dead one.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start, state = 19, 0 // behind the name
	if len(fields) <= start || string(fields[state]) == "Z" {
		return ""
	}
	return string(fields[start])
}
