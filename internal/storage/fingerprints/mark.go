package fingerprints

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Mark is the state of a local file at a moment: its path, identity, size, and time of the last change. The zero value means
// that too little is known.
type Mark struct {
	path    string
	text    string
	changed time.Time
	seen    time.Time
}

// settled is how long a file must be unchanged before its mark is reliable. File times may have steps of two seconds, and two
// contents written within one step have the same mark (git's "racy" entries).
const settled = 3 * time.Second

// MarkFile returns the mark of a file.
func MarkFile(path string) Mark { return markAt(path, time.Now()) }

func markAt(path string, now time.Time) Mark {
	path, err := filepath.Abs(path)
	if err != nil {
		return Mark{}
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return Mark{}
	}
	which, status, known := inode(info)
	if !known {
		return Mark{}
	}
	changed := info.ModTime()
	if status.After(changed) {
		changed = status
	}
	return Mark{path, fmt.Sprintf("%q %s %d %d %d\n", path, which, info.Size(), info.ModTime().UnixNano(), status.UnixNano()), changed, now}
}

// isUnchanged reports whether the file is still the one that was marked. It returns false if the file was changed just before
// the mark, because a later change could have the same mark.
func (m Mark) isUnchanged() bool {
	return m.text != "" && m.changed.Before(m.seen.Add(-settled)) && MarkFile(m.path).text == m.text
}

// MarksID returns the id of a result that is computed from files in a given way. The id changes when a mark changes; it is "" if a mark
// is not reliable.
func MarksID(way string, marks ...Mark) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", way)
	for _, m := range marks {
		if !m.isUnchanged() {
			return ""
		}
		sum.Write([]byte(m.text))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
