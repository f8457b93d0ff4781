package media

import "golang.org/x/sys/unix"

// limitMemory bounds the address space of a process, in bytes. One that has ended already needs no limit.
func limitMemory(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}
