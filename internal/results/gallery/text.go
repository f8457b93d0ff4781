package gallery

import (
	"strconv"
	"strings"
)

// clean replaces invalid UTF-8, which a page must not contain.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// plural formats a number with a noun: "1 video", "1,200 videos".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// grouped formats n >= 0 with commas between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
