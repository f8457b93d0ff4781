package ftfy

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// IsSpace reports whether Python's \s matches r: Unicode white space and the four information separators.
func IsSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// IsWord reports whether Python's \w matches r: letters and numbers of all kinds and the underscore, no marks.
func IsWord(r rune) bool {
	if r < 0x80 {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

// ligatures maps Latin ligatures to their letters.
var ligatures = map[rune]string{
	'Ĳ': "IJ", 'ĳ': "ij", 'ŉ': "ʼn",
	'Ǳ': "DZ", 'ǲ': "Dz", 'ǳ': "dz", 'Ǆ': "DŽ", 'ǅ': "Dž", 'ǆ': "dž",
	'Ǉ': "LJ", 'ǈ': "Lj", 'ǉ': "lj", 'Ǌ': "NJ", 'ǋ': "Nj", 'ǌ': "nj",
	'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "ſt", 'ﬆ': "st",
}

// replaceCharacters applies the repairs of single characters and line breaks: C1 controls become Windows-1252 characters (as in
// browsers); ligatures, full and half widths, curly quotes and line breaks are normalised.
func replaceCharacters(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 || r == '\r' }) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	for i, r := range s {
		if r == '\r' && strings.HasPrefix(s[i+1:], "\n") {
			continue
		}
		if r < 0x80 && r != '\r' {
			out.WriteByte(byte(r))
		} else {
			writeReplaced(&out, r)
		}
	}
	return out.String()
}

// writeReplaced writes one character after all repairs. The letters of a ligature may contain an apostrophe that another repair
// must replace, so the output of a repair passes through the later repairs.
func writeReplaced(out *strings.Builder, r rune) {
	if r >= 0x80 && r <= 0x9f {
		r = windows1252.decode(byte(r))
	}
	if letters, ok := ligatures[r]; ok {
		for _, l := range letters {
			out.WriteRune(straightened(l))
		}
		return
	}
	if r == 0x3000 {
		out.WriteByte(' ')
		return
	}
	if r > 0xff00 && r < 0xfff0 {
		for _, l := range norm.NFKC.String(string(r)) {
			out.WriteRune(straightened(l))
		}
		return
	}
	out.WriteRune(straightened(r))
}

// straightened returns r with curly quotes made straight and line separators turned into line feeds.
func straightened(r rune) rune {
	switch r {
	case 0x201c, 0x201d, 0x201e, 0x201f:
		return '"'
	case 0x2bc, 0x2018, 0x2019, 0x201a, 0x201b:
		return '\''
	case '\r', 0x2028, 0x2029, 0x85:
		return '\n'
	}
	return r
}

// terminalEscape matches ESC [ parameters letter, a colour or cursor code of terminals.
var terminalEscape = regexp.MustCompile(`\x1b\[[;\p{Nd}]*[A-Za-z]`)

// removeControls deletes control characters that are never intended: ASCII controls that are not white space, deprecated
// formatting characters, annotation marks, the byte order mark.
func removeControls(s string) string {
	return strings.Map(func(r rune) rune {
		if isUnwanted(r) {
			return -1
		}
		return r
	}, s)
}

func isUnwanted(r rune) bool {
	switch {
	case r < 0x20:
		return r != '\t' && r != '\n' && r != '\f' && r != '\r'
	case r >= 0x206a && r <= 0x206f, r >= 0xfff9 && r <= 0xfffc:
		return true
	}
	return r == 0x7f || r == 0xfeff
}
