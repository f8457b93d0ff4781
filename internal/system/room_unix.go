//go:build unix

package system

import "golang.org/x/sys/unix"

// FreeBytes returns how many bytes this user can still write to the file system of dir. known is false if the system does not say.
func FreeBytes(dir string) (free int64, known bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
