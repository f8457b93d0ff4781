package store

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
)

// Limits of a name, below what the usual file systems and buckets take (255 and 1,024 bytes).
const (
	nameBytesMax    = 1000
	elementBytesMax = 250
)

// tempPrefix starts the name of every file that is not published yet.
const tempPrefix = ".tmp-"

// checkName accepts slash-separated relative names such as "videos/ab/abcd.mp4" that mean the same
// on every file system. os.Root keeps paths inside the directory; this keeps names readable.
func checkName(name string) error {
	why := ""
	switch {
	case name == "" || name == "." || !fs.ValidPath(name):
		why = "it must be relative, with no empty, . or .. element, in UTF-8"
	case len(name) > nameBytesMax:
		why = fmt.Sprintf("it is %d bytes long, the limit is %d", len(name), nameBytesMax)
	case strings.ContainsAny(name, `\:`):
		why = `it contains \ or :`
	case strings.ContainsFunc(name, unicode.IsControl):
		why = "it contains a control character"
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > elementBytesMax {
			why = fmt.Sprintf("one element is %d bytes long, the limit is %d", len(element), elementBytesMax)
		}
		if strings.HasPrefix(element, tempPrefix) {
			why = "names that start with " + tempPrefix + " are the store's own"
		}
	}
	if why == "" {
		return nil
	}
	if len(name) > 80 {
		name = name[:80] + "..."
	}
	return fmt.Errorf("output name %q: %s", name, why)
}

// isTemp reports whether the last element of name is a temporary file's.
func isTemp(name string) bool { return strings.HasPrefix(path.Base(name), tempPrefix) }
