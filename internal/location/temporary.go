package location

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// temporaryPrefix begins the names of media files that are copied to this host for as long as they are read.
const temporaryPrefix = "latentbeam-media-"

// leftAfter is how old such a file is at least when it is taken for one that a killed process has left.
const leftAfter = 24 * time.Hour

// sweep removes, once in a process, what killed processes have left.
var sweep = sync.OnceFunc(func() { removeLeft(os.TempDir(), time.Now()) })

// removeLeft removes the files of a directory that are older than leftAfter.
func removeLeft(dir string, now time.Time) {
	left, _ := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*"))
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > leftAfter {
			_ = os.Remove(name) // of another user, perhaps
		}
	}
}

// temporary makes a file for media of an extension.
func temporary(ext string) (*os.File, error) {
	sweep()
	return os.CreateTemp("", temporaryPrefix+"*"+ext)
}
