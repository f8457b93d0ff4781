package ftfy

import (
	"regexp"
	"strings"
)

// The patterns below match encoded text as Latin-1: one character is one byte.

// damagedSpace matches sequences that would be UTF-8 if their space were the byte A0, and that would then be common characters.
// 85 and A0 are spaces themselves.
var damagedSpace = regexp.MustCompile(`[\xc2\xc3\xc5\xce\xd0\xd9] ` +
	`|[\xe2\xe3] [\x80-\x84\x86-\x9f\xa1-\xbf]|[\xe0-\xe3][\x80-\x84\x86-\x9f\xa1-\xbf] ` +
	`|\xf0 [\x80-\xbf]{2}|\xf0[\x80-\xbf] [\x80-\xbf]|\xf0[\x80-\xbf]{2} `)

// lostSequences matches UTF-8 and CESU-8 sequences with bytes that a code page lost. A lost byte is 1A; one of them may be "?".
// The order matters: the first match is used.
var lostSequences = regexp.MustCompile(`[\xc2-\xdf]\x1a|[\xc2\xc3]\?` +
	`|\xed[\xa0-\xaf][\x1a?]\xed[\xb0-\xbf][\x1a?\x80-\xbf]|\xed[\xa0-\xaf][\x1a?\x80-\xbf]\xed[\xb0-\xbf][\x1a?]` +
	`|[\xe0-\xef][\x1a?][\x1a\x80-\xbf]|[\xe0-\xef][\x1a\x80-\xbf][\x1a?]` +
	`|[\xf0-\xf4][\x1a?][\x1a\x80-\xbf]{2}|[\xf0-\xf4][\x1a\x80-\xbf][\x1a?][\x1a\x80-\xbf]` +
	`|[\xf0-\xf4][\x1a\x80-\xbf]{2}[\x1a?]|\x1a`)

// loneAGrave matches a separate "à" that lost its A0, so that "Ã la mode" becomes "à la mode". Portuguese words that start with
// à ("às", "àquele", "àquela", "àquilo") and a second space are not separated.
var loneAGrave = regexp.MustCompile(`\xc3 ( |quele|quela|quilo|s )?`)

// restoreSpaces turns the spaces of damaged sequences into A0 again. Before that, a separate "à" gets its A0 and keeps the
// space after it.
func restoreSpaces(text string) string {
	text = loneAGrave.ReplaceAllStringFunc(text, func(found string) string {
		if word := found[len("\u00c3 "):]; word != "" {
			return "\u00c3 " + word
		}
		return "\u00c3\u00a0 "
	})
	return damagedSpace.ReplaceAllStringFunc(text, func(found string) string {
		return strings.ReplaceAll(found, " ", "\u00a0")
	})
}

// replaceLost replaces sequences that lost bytes, and single lost bytes, by U+FFFD in UTF-8.
func replaceLost(text string) string {
	return lostSequences.ReplaceAllString(text, "\u00ef\u00bf\u00bd")
}
