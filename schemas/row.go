package schemas

import (
	"strings"
	"unicode/utf8"
)

// Row is one row of an output table.
type Row interface {
	// Schema names the table kind and its version, e.g. "videos/v1". It is the same for every value of a type.
	Schema() string
	// ByteSize returns about how many bytes the row needs in a file. Writers use it to limit row groups.
	ByteSize() int
}

// fixedBytes is an estimate for the numbers of a row; text and tensors are usually far larger.
const fixedBytes = 128

func textBytes(texts ...string) int {
	n := 0
	for _, t := range texts {
		n += len(t)
	}
	return n
}

// ValidText makes s a text that every parquet reader accepts. Invalid UTF-8 becomes U+FFFD; a text longer than maxBytes is cut
// between characters and ends in "…". Failure rows need it because they quote invalid input.
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
