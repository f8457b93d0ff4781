package ftfy

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entity returns the characters that HTML gives a name ("eacute" is "é"), and whether it knows the name
// with a semicolon after it.
func Entity(name string) (string, bool) {
	switch name { // the two names that package html does not resolve
	case "nGt":
		return "\u226b\u20d2", true
	case "nLt":
		return "\u226a\u20d2", true
	}
	got := html.UnescapeString("&" + name + ";")
	if strings.HasPrefix(got, "&") && len(got) > 1 {
		return "", false
	}
	// "&notit;" resolves to "¬it;" because of "not": a semicolon that is left shows it.
	if strings.HasSuffix(got, ";") && name != "semi" {
		return "", false
	}
	return got, true
}

// legacyEntity is Entity for the 106 old names that HTML accepts without a semicolon, all of one character.
func legacyEntity(name string) (string, bool) {
	got := html.UnescapeString("&" + name)
	return got, utf8.RuneCountInString(got) == 1
}

// maxLegacyName is the length of the longest name that needs no semicolon.
const maxLegacyName = 6

// UnescapeHTML decodes character references as HTML 5 does (Python's html.unescape): named ones, the
// longest known start of a name where there is no semicolon, numbers.
func UnescapeHTML(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i])
		s = s[i+1:]
		text, n := reference(s)
		if n == 0 {
			out.WriteByte('&')
		}
		out.WriteString(text)
		s = s[n:]
	}
}

// reference decodes the reference that s starts with, its ampersand already gone: the text and how much
// of s it covers, 0 if s is no reference.
func reference(s string) (string, int) {
	if strings.HasPrefix(s, "#") {
		return numericReference(s)
	}
	n := nameLength(s)
	if n == 0 {
		return "", 0
	}
	name := s[:n]
	if strings.HasPrefix(s[n:], ";") {
		if text, ok := Entity(name); ok {
			return text, n + 1
		}
	}
	for k := min(n, maxLegacyName); k >= 2; k-- {
		if text, ok := legacyEntity(name[:k]); ok {
			return text, k
		}
	}
	return "", 0
}

// nameLength is the length of the run at the start of s that may be a name: at most 32 characters other
// than white space, "<", "&", "#" and ";".
func nameLength(s string) int {
	count := 0
	for i, r := range s {
		if count == 32 || strings.ContainsRune("\t\n\f <&#;", r) {
			return i
		}
		count++
	}
	return len(s)
}

func numericReference(s string) (string, int) {
	digits, base, start := "0123456789", 10, 1
	if len(s) > 1 && (s[1] == 'x' || s[1] == 'X') {
		digits, base, start = "0123456789abcdefABCDEF", 16, 2
	}
	end := start + len(s[start:]) - len(strings.TrimLeft(s[start:], digits))
	if end == start {
		return "", 0
	}
	v, err := strconv.ParseUint(s[start:end], base, 32)
	if strings.HasPrefix(s[end:], ";") {
		end++
	}
	if err != nil {
		return "\uFFFD", end
	}
	return numbered(rune(min(v, unicode.MaxRune+1))), end
}

// numbered is the character that HTML gives a number: Windows-1252 for C1 controls, nothing for controls
// and noncharacters, U+FFFD for what is not a character.
func numbered(r rune) string {
	switch {
	case r == 0, r > unicode.MaxRune, r >= 0xd800 && r <= 0xdfff:
		return "\uFFFD"
	case r == '\r':
		return "\r"
	case r >= 0x80 && r <= 0x9f:
		return string(windows1252.decode(byte(r)))
	case r < 0x20 && r != '\t' && r != '\n' && r != '\f', r == 0x7f:
		return ""
	case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
		return ""
	}
	return string(r)
}

// maxEntity is the length of the longest entity that unescapeStrict looks for, without "&", "#" and ";".
const maxEntity = 24

// unescapeStrict decodes the entities that nobody could have meant otherwise: those that end in a
// semicolon, also in capitals ("&NTILDE;") where that is no name of its own.
func unescapeStrict(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i])
		s = s[i:]
		n := entityLength(s)
		if n == 0 {
			out.WriteByte('&')
			s = s[1:]
			continue
		}
		out.WriteString(strictEntity(s[:n]))
		s = s[n:]
	}
}

// entityLength is the length of the entity-like start of s, from "&" to ";", 0 if there is none.
func entityLength(s string) int {
	start := 1
	if strings.HasPrefix(s[1:], "#") {
		start = 2
	}
	end := start
	for end < len(s) && end-start <= maxEntity && (isASCIILetter(s[end]) || s[end] >= '0' && s[end] <= '9') {
		end++
	}
	if end == start || end-start > maxEntity || end == len(s) || s[end] != ';' {
		return 0
	}
	return end + 1
}

func strictEntity(entity string) string {
	name := entity[1 : len(entity)-1]
	if name[0] == '#' {
		if text := UnescapeHTML(entity); !strings.Contains(text, ";") {
			return text
		}
		return entity
	}
	if text, ok := Entity(name); ok {
		return text
	}
	lower := strings.ToLower(name)
	if lower != name && strings.ToUpper(name) == name && UnescapeHTML(entity) == entity {
		if text, ok := Entity(lower); ok {
			return upperFull(text)
		}
	}
	return entity
}

// upperFull is text in capitals, with the few entities whose capital is more than one letter.
func upperFull(text string) string {
	switch text {
	case "ß":
		return "SS"
	case "ŉ":
		return "ʼN"
	case "ﬀ", "ﬁ", "ﬂ", "ﬃ", "ﬄ":
		return strings.ToUpper(ligatures[[]rune(text)[0]])
	}
	return strings.ToUpper(text)
}
