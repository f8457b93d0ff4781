package store

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"
)

// Limits of a name, below the limits of the usual file systems and buckets (255 and 1,024 bytes).
const (
	nameBytesMax    = 1000
	elementBytesMax = 250
)

// TempPrefix is the prefix of names that a store uses itself, such as unpublished files.
const TempPrefix = ".tmp-"

// CheckName accepts slash-separated relative names such as "videos/ab/abcd.mp4" that mean the same in every file system and
// bucket.
func CheckName(name string) error {
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
		if strings.HasPrefix(element, TempPrefix) {
			why = "names that start with " + TempPrefix + " are the store's own"
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

// CheckPrefix accepts the prefixes of valid names.
func CheckPrefix(prefix string) error {
	if CheckName(prefix) == nil {
		return nil
	}
	return CheckName(prefix + "x")
}
