package schemas

import (
	"strings"
	"unicode/utf8"
)

// Row is one row of an output table.
type Row interface {
	// Schema names the table kind and its version, e.g. "videos/v1". It is the same for every value of a type.
	Schema() string
	// ByteSize is about how many bytes the row takes in a file, by which writers cut row groups.
	ByteSize() int
}

// fixedBytes stands for the numbers of a row, which barely count beside text and tensors.
const fixedBytes = 128

func textBytes(texts ...string) int {
	n := 0
	for _, t := range texts {
		n += len(t)
	}
	return n
}

// ValidText returns s as a text that every parquet reader takes: invalid UTF-8 becomes U+FFFD, and a text of
// more than maxBytes is cut at a character and ends in "…". Failure rows need it: they quote what was wrong.
func ValidText(s string, maxBytes int) string {
	if len(s) > maxBytes {
		cut := maxBytes
		for cut > 0 && maxBytes-cut < utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
