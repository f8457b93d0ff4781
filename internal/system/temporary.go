package system

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// prefix begins the names of all of them.
const prefix = "latentbeam-"

// What they are for is a part of their names.
const (
	Media  = "media"  // copies of media files
	FFmpeg = "ffmpeg" // videos that ffmpeg writes
	Tiny   = "tiny"   // the built-in model as files
)

// leftAfter is how old one is at least when it is taken for one that a killed process has left.
const leftAfter = 24 * time.Hour

// sweep removes, once in a process, what killed processes have left.
var sweep = sync.OnceFunc(func() { removeLeft(os.TempDir(), time.Now()) })

// removeLeft removes what is older than leftAfter in a directory.
func removeLeft(dir string, now time.Time) {
	for _, use := range []string{Media, FFmpeg, Tiny} {
		left, _ := filepath.Glob(filepath.Join(dir, prefix+use+"-*"))
		for _, name := range left {
			if info, err := os.Lstat(name); err == nil && now.Sub(info.ModTime()) > leftAfter {
				_ = os.RemoveAll(name) // of another user, perhaps
			}
		}
	}
}

// TempFile makes a file with an extension. The caller removes it.
func TempFile(use, ext string) (*os.File, error) {
	sweep()
	return os.CreateTemp("", prefix+use+"-*"+ext)
}

// TempDir makes a directory. The caller removes it.
func TempDir(use string) (string, error) {
	sweep()
	return os.MkdirTemp("", prefix+use+"-")
}
