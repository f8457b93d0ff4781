package location

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// digests remember the content of files whose copies may be gone: a run of a finished job then asks a bucket for each
// file's version, and reads none. They are lines "id sha256" in 256 files.
var digests struct {
	sync.Mutex
	files map[string]map[string]string // by path, by id
}

var digestLine = regexp.MustCompile(`^([0-9a-f]{32}) ([0-9a-f]{64})$`)

// digestFile is the file that holds an entry's digest.
func digestFile(id string) (string, error) {
	root, err := cacheDir()
	return filepath.Join(root, "digests", id[:2]), err
}

// recall returns the digest of an entry with one file, "" where it is not known.
func recall(id string) string {
	path, err := digestFile(id)
	if err != nil {
		return ""
	}
	digests.Lock()
	defer digests.Unlock()
	return load(path)[id]
}

// load reads a file of digests, once. Lines that a dead process did not finish are left out.
func load(path string) map[string]string {
	if known, found := digests.files[path]; found {
		return known
	}
	known := map[string]string{}
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if m := digestLine.FindStringSubmatch(lines.Text()); m != nil {
				known[m[1]] = m[2]
			}
		}
	}
	if digests.files == nil {
		digests.files = map[string]map[string]string{}
	}
	digests.files[path] = known
	return known
}

// remember notes the digest of an entry. That it cannot be written costs time later, no more.
func remember(id, sha string) {
	path, err := digestFile(id)
	if err != nil {
		return
	}
	digests.Lock()
	defer digests.Unlock()
	known := load(path)
	if known[id] == sha {
		return
	}
	known[id] = sha
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	if f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_, _ = fmt.Fprintf(f, "%s %s\n", id, sha)
		_ = f.Close()
	}
}
