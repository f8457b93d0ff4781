package ftfy

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entity returns the characters of an HTML entity ("eacute" is "é"), and whether HTML knows the name with a semicolon after it.
func Entity(name string) (string, bool) {
	switch name { // package html does not resolve these two names
	case "nGt":
		return "\u226b\u20d2", true
	case "nLt":
		return "\u226a\u20d2", true
	}
	got := html.UnescapeString("&" + name + ";")
	if strings.HasPrefix(got, "&") && len(got) > 1 {
		return "", false
	}
	// "&notit;" resolves to "¬it;" because of "not". The remaining semicolon reveals it.
	if strings.HasSuffix(got, ";") && name != "semi" {
		return "", false
	}
	return got, true
}

// legacyEntity is Entity for the 106 old names that HTML accepts without a semicolon. Each is a single character.
func legacyEntity(name string) (string, bool) {
	got := html.UnescapeString("&" + name)
	return got, utf8.RuneCountInString(got) == 1
}

// maxLegacyName is the length of the longest name that does not need a semicolon.
const maxLegacyName = 6

// references matches what HTML may read as a character reference.
var references = regexp.MustCompile(`&(#[0-9]+|#[xX][0-9a-fA-F]+|[^\t\n\f <&#;]{1,32});?`)

// UnescapeHTML decodes character references as HTML 5 does (Python's html.unescape): numbers, and names; without a semicolon
// the longest known start of a name counts.
func UnescapeHTML(s string) string { return references.ReplaceAllStringFunc(s, dereference) }

func dereference(reference string) string {
	name, closed := strings.CutSuffix(reference[1:], ";")
	if name[0] == '#' {
		return numericReference(name[1:])
	}
	if text, ok := Entity(name); ok && closed {
		return text
	}
	for k := min(len(name), maxLegacyName); k >= 2; k-- {
		if text, ok := legacyEntity(name[:k]); ok {
			return text + reference[1+k:]
		}
	}
	return reference
}

func numericReference(digits string) string {
	base := 10
	if hex := strings.TrimLeft(digits, "xX"); hex != digits {
		digits, base = hex, 16
	}
	v, err := strconv.ParseUint(digits, base, 32)
	if err != nil { // too large
		return "\uFFFD"
	}
	return numbered(rune(min(v, unicode.MaxRune+1)))
}

// numbered returns the character for a number in HTML: Windows-1252 for C1 controls, nothing for controls and noncharacters,
// U+FFFD for invalid numbers.
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

// strictReferences matches the references that unescapeStrict decodes.
var strictReferences = regexp.MustCompile(`&#?[0-9A-Za-z]{1,24};`)

// unescapeStrict decodes unmistakable entities: those that end in a semicolon, also in capitals ("&NTILDE;") if the capitals
// are no other name.
func unescapeStrict(s string) string { return strictReferences.ReplaceAllStringFunc(s, strictEntity) }

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

// upperFull returns text in capitals. It handles the few entities whose capital has more than one letter.
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
