package nvml

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// locked reports whether a process visible to this one has locked the file with flock. It reads the kernel's list
// (proc_locks(5)) and compares inode numbers only, because layered file systems show other device numbers there.
func locked(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	list, err := os.Open("/proc/locks")
	if !ok || err != nil {
		return false
	}
	defer list.Close()
	file := ":" + strconv.FormatUint(stat.Ino, 10)
	for s := bufio.NewScanner(list); s.Scan(); { // 1: FLOCK  ADVISORY  WRITE 4242 08:01:1234 0 EOF
		if f := strings.Fields(s.Text()); len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], file) {
			return true
		}
	}
	return false
}
