package fingerprints

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// CacheVariable is the environment variable for the directory that this host keeps between runs. The default is latentbeam in
// the user's cache directory (XDG_CACHE_HOME, else ~/.cache).
const CacheVariable = "LATENTBEAM_CACHE"

// CacheDir returns that directory. It may not exist yet.
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

var cacheWarning sync.Once

// WarnCache warns, once for this process, that the directory cannot be written. It does nothing if err is nil.
func WarnCache(err error) {
	if err == nil {
		return
	}
	cacheWarning.Do(func() {
		slog.Warn("the cache cannot be written: later runs read weights for their digests and measure the processors again; set "+
			CacheVariable+" to a folder that can be written", "error", err)
	})
}

// Store caches the digests that this host knows. They are stored as lines "id sha256" in 256 files. It is safe for concurrent
// use.
type Store struct {
	mu    sync.Mutex
	files map[string]map[string]string // by path, then by id
}

// Host is the store of this process.
var Host Store

// line matches an id and a digest, or an id, a digest, a note and a full stop. Without the full stop a note is incomplete and
// ignored.
var line = regexp.MustCompile(`^([0-9a-f]{32}) ([0-9a-f]{64}(?: [ -~]{1,200}\.)?)$`)

// file returns the path for the digest of an id.
func file(id string) (string, error) {
	if len(id) != 32 {
		return "", errors.New("an id has 32 digits")
	}
	root, err := CacheDir()
	return filepath.Join(root, "digests", id[:2]), err
}

// Recall returns the digest for an id of 32 hexadecimal digits, followed by a space and its note if there is one; "" if it is
// not known.
func (s *Store) Recall(id string) string {
	path, err := file(id)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(path)[id]
}

// load reads a file of digests, once. It ignores incomplete lines of dead processes.
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

// Remember stores the digest for an id; a note of printable ASCII may follow after a space. Write errors only
// cost time later: they give a warning.
func (s *Store) Remember(id, sha string) {
	path, err := file(id)
	if err != nil {
		WarnCache(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.load(path)
	if known[id] == sha {
		return
	}
	known[id] = sha
	WarnCache(appendLine(path, id, sha))
}

// appendLine appends the digest for an id to a file, and makes the file if there is none.
func appendLine(path, id, sha string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if strings.Contains(sha, " ") {
		sha += "."
	}
	_, err = fmt.Fprintf(f, "%s %s\n", id, sha)
	return errors.Join(err, f.Close())
}
