package exec

import "golang.org/x/sys/unix"

// supported says why this system cannot run programs, nil: it can.
func supported() error { return nil }

// room returns the bytes that are free for files in a directory, 0 where there is none.
func room(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * s.Bsize
}
