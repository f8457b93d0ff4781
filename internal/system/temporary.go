package system

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// temporaryPrefix begins the names of all temporary files.
const temporaryPrefix = "latentbeam-"

// Uses of temporary files, which are part of their names.
const (
	Media  = "media"  // copies of media files
	FFmpeg = "ffmpeg" // videos that ffmpeg writes
	Tiny   = "tiny"   // the built-in model as files
)

// staleAge is the age from which a temporary file counts as left by a killed process.
const staleAge = 24 * time.Hour

// sweepTemporary removes the files that killed processes have left, once in a process.
var sweepTemporary = sync.OnceFunc(func() { removeStale(os.TempDir(), time.Now()) })

// removeStale removes temporary files in dir that are older than staleAge.
func removeStale(dir string, now time.Time) {
	for _, use := range []string{Media, FFmpeg, Tiny} {
		left, _ := filepath.Glob(filepath.Join(dir, temporaryPrefix+use+"-*"))
		for _, name := range left {
			if info, err := os.Lstat(name); err == nil && now.Sub(info.ModTime()) > staleAge {
				_ = os.RemoveAll(name) // fails for files of other users
			}
		}
	}
}

// TempFile creates a temporary file with an extension. The caller removes it.
func TempFile(use, ext string) (*os.File, error) {
	sweepTemporary()
	return os.CreateTemp("", temporaryPrefix+use+"-*"+ext)
}

// TempDir creates a temporary directory. The caller removes it.
func TempDir(use string) (string, error) {
	sweepTemporary()
	return os.MkdirTemp("", temporaryPrefix+use+"-")
}
