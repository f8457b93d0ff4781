package ftfy

import (
	"regexp"
	"strings"
)

// The patterns below are over encoded text as Latin-1: a character is a byte.

// damagedSpace are sequences that would be UTF-8 if their space were the byte A0, and then stand for
// characters that are common enough to believe it. 85 and A0 are spaces themselves.
var damagedSpace = regexp.MustCompile(`[\xc2\xc3\xc5\xce\xd0\xd9] ` +
	`|[\xe2\xe3] [\x80-\x84\x86-\x9f\xa1-\xbf]|[\xe0-\xe3][\x80-\x84\x86-\x9f\xa1-\xbf] ` +
	`|\xf0 [\x80-\xbf]{2}|\xf0[\x80-\xbf] [\x80-\xbf]|\xf0[\x80-\xbf]{2} `)

// lostSequences are UTF-8 and CESU-8 sequences with bytes that a code page lost, which are 1A; "?" may stand for one of
// them. The order matters: the first that fits is taken.
var lostSequences = regexp.MustCompile(`[\xc2-\xdf]\x1a|[\xc2\xc3]\?` +
	`|\xed[\xa0-\xaf][\x1a?]\xed[\xb0-\xbf][\x1a?\x80-\xbf]|\xed[\xa0-\xaf][\x1a?\x80-\xbf]\xed[\xb0-\xbf][\x1a?]` +
	`|[\xe0-\xef][\x1a?][\x1a\x80-\xbf]|[\xe0-\xef][\x1a\x80-\xbf][\x1a?]` +
	`|[\xf0-\xf4][\x1a?][\x1a\x80-\xbf]{2}|[\xf0-\xf4][\x1a\x80-\xbf][\x1a?][\x1a\x80-\xbf]` +
	`|[\xf0-\xf4][\x1a\x80-\xbf]{2}[\x1a?]|\x1a`)

// loneAGrave is an "à" that stands alone and lost its A0, so that "Ã la mode" becomes "à la mode". The words of
// Portuguese that start with à ("às", "àquele", "àquela", "àquilo") stay together, as does a second space.
var loneAGrave = regexp.MustCompile(`\xc3 ( |quele|quela|quilo|s )?`)

// restoreSpaces makes the spaces of damaged sequences A0 again. Before that, "à" that stands alone gets
// its A0 and keeps the space after it.
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

// replaceLost makes U+FFFD, in UTF-8, of sequences that lost bytes, and of lost bytes alone.
func replaceLost(text string) string {
	return lostSequences.ReplaceAllString(text, "\u00ef\u00bf\u00bd")
}
