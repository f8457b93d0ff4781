package bucket

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// process identifies this process, so that others on the same machine can check whether it lives: the machine's boot, the PID
// namespace, the PID, and the process's start time. It is empty if the system does not provide them.
func process() string {
	place, pid := pidNamespace(), os.Getpid()
	start := started(pid)
	if place == "" || start == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %s", place, pid, start)
}

// ownerDied reports whether a holder is known to be dead: it was a process on this machine that no longer exists.
func ownerDied(r record) bool {
	here := pidNamespace()
	if here == "" || !strings.HasPrefix(r.Process, here+" ") {
		return false
	}
	return r.Process != fmt.Sprintf("%s %d %s", here, r.PID, started(r.PID))
}

// pidNamespace identifies the PID namespace.
func pidNamespace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	if err != nil || err2 != nil {
		return ""
	}
	return string(bytes.TrimSpace(boot)) + " " + space
}

// started returns the start time of a process in ticks of the machine; "" for a dead process.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start, state = 19, 0 // fields after the name
	if len(fields) <= start || string(fields[state]) == "Z" {
		return ""
	}
	return string(fields[start])
}
