package fingerprints

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// inode identifies a file and returns the time when its inode changed last. No program can set that time.
func inode(info os.FileInfo) (which string, changed time.Time, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	return fmt.Sprint(s.Dev, s.Ino), time.Unix(s.Ctim.Unix()), true
}
