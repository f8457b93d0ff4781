package gallery

import (
	"strconv"
	"strings"
)

// clean replaces what is not UTF-8, which a page declared as UTF-8 must not hold.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// plural is "1 video", "1,200 videos".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// grouped writes n >= 0 with a comma between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
