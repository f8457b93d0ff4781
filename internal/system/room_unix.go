//go:build unix

package system

import "golang.org/x/sys/unix"

// FreeBytes is how much this user's files may take on the disk of dir; known is false where the system does not say.
func FreeBytes(dir string) (free int64, known bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
