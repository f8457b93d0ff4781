package fingerprints

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Mark is how a local file looked at a moment: where and which it is, its size, and when it was last changed. The zero value is
// a file of which too little is known.
type Mark struct {
	path    string
	text    string
	changed time.Time
	seen    time.Time
}

// settled is how long a file has to be unchanged before its mark says that a later change gives it another one. Times of
// files may be as coarse as two seconds, and within one step of them two contents have one mark (git's "racy" entries).
const settled = 3 * time.Second

// MarkFile looks at a file.
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

// isUnchanged reports whether the file is the one that was seen, unchanged. It does not while it was changed just before: a change
// behind that could not be told from it.
func (m Mark) isUnchanged() bool {
	return m.text != "" && m.changed.Before(m.seen.Add(-settled)) && MarkFile(m.path).text == m.text
}

// MarksID names what is made of files in some way, as long as they are as their marks say; else it is "".
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
