package fingerprints

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// CacheVariable names the directory for what this host keeps between runs. Without it that is latentbeam below the user's
// cache directory (XDG_CACHE_HOME, else ~/.cache).
const CacheVariable = "LATENTBEAM_CACHE"

// CacheDir is that directory. It may not be there yet.
func CacheDir() (string, error) {
	dir := os.Getenv(CacheVariable)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "latentbeam")
	}
	return filepath.Abs(dir)
}

// Store is what a process knows of the digests of its host. They are lines "id sha256" in 256 files. It is safe for
// concurrent use.
type Store struct {
	mu    sync.Mutex
	files map[string]map[string]string // by path, by id
}

// Host is the store of this process.
var Host Store

// line is an id and a digest, or an id, a digest, a note and a full stop: a note that is cut off is none.
var line = regexp.MustCompile(`^([0-9a-f]{32}) ([0-9a-f]{64}(?: [ -~]{1,200}\.)?)$`)

// file is where the digest of an id is.
func file(id string) (string, error) {
	if len(id) != 32 {
		return "", errors.New("an id has 32 digits")
	}
	root, err := CacheDir()
	return filepath.Join(root, "digests", id[:2]), err
}

// Recall returns the digest of an id of 32 hexadecimal digits, with its note behind a space, "" where it is not known.
func (s *Store) Recall(id string) string {
	path, err := file(id)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(path)[id]
}

// load reads a file of digests, once. Lines that a dead process did not finish are left out.
func (s *Store) load(path string) map[string]string {
	if known, found := s.files[path]; found {
		return known
	}
	known := map[string]string{}
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if m := line.FindStringSubmatch(lines.Text()); m != nil {
				known[m[1]] = strings.TrimSuffix(m[2], ".")
			}
		}
	}
	if s.files == nil {
		s.files = map[string]map[string]string{}
	}
	s.files[path] = known
	return known
}

// Remember notes the digest of an id; a note of printable ASCII may stand behind a space. That it cannot be written costs time later,
// no more.
func (s *Store) Remember(id, sha string) {
	path, err := file(id)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.load(path)
	if known[id] == sha {
		return
	}
	known[id] = sha
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	if f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		if strings.Contains(sha, " ") {
			sha += "."
		}
		_, _ = fmt.Fprintf(f, "%s %s\n", id, sha)
		_ = f.Close()
	}
}
