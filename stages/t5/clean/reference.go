package clean

import (
	"strconv"
	"strings"
	"unicode"

	"latentbeam/stages/t5/ftfy"
)

// readReference parses the reference that "&" at i starts. It returns where to continue and whether to continue.
func (p *htmlParser) readReference(i int, final bool) (int, bool) {
	rest := p.raw[i:]
	if strings.HasPrefix(rest, "&#") {
		if n := numberLength(rest); n > 0 {
			p.tree.add(referencedCharacter(rest[2:n]))
			return i + n + semicolon(rest[n:]), true
		}
		if strings.Contains(rest, ";") {
			p.tree.add("&#")
			return i + 2, false
		}
		return i, false
	}
	if n := nameEnd(rest); n > 0 {
		name := rest[1:n]
		if text, ok := ftfy.Entity(name); ok {
			p.tree.add(text)
		} else {
			p.tree.add("&" + name)
		}
		return i + n + semicolon(rest[n:]), true
	}
	if len(rest) > 1 && isLetter(rune(rest[1])) {
		// A name that the end of the text cuts off. The reference drops the ampersand before a single letter.
		if final && len(rest) == 2 {
			return i + 1, false
		}
		return i, false
	}
	if len(rest) > 1 {
		p.tree.add("&")
		return i + 1, true
	}
	return i, false
}

func semicolon(s string) int {
	if strings.HasPrefix(s, ";") {
		return 1
	}
	return 0
}

// numberLength returns the length of "&#" and a number at the start of s, if a character follows that cannot belong to it;
// otherwise 0.
func numberLength(s string) int {
	digits, start := "0123456789", 2
	if len(s) > 2 && (s[2] == 'x' || s[2] == 'X') {
		digits, start = "0123456789abcdefABCDEF", 3
	}
	end := len(s) - len(strings.TrimLeft(s[start:], digits))
	if end == start || end == len(s) || strings.IndexByte("0123456789abcdefABCDEF", s[end]) >= 0 {
		return 0
	}
	return end
}

// nameEnd returns the end of "&" and a name at the start of s. A character that is not a letter or digit must follow. A name
// may contain hyphens and dots; at the end of the text its last one does not belong to it.
func nameEnd(s string) int {
	if len(s) < 2 || !isLetter(rune(s[1])) {
		return 0
	}
	end, mark := 2, 0
	for end < len(s) {
		if s[end] == '-' || s[end] == '.' {
			mark = end
		} else if !isASCIIWord(s[end], true) {
			return end
		}
		end++
	}
	return mark
}

// referencedCharacter returns the character for a number. A hexadecimal number starts with x.
func referencedCharacter(number string) string {
	base := 10
	if number[0] == 'x' || number[0] == 'X' {
		number, base = number[1:], 16
	}
	v, err := strconv.ParseUint(number, base, 32)
	switch {
	case err != nil, v == 0, v > unicode.MaxRune, v >= 0xd800 && v <= 0xdfff:
		return "\uFFFD"
	case v >= 0x80 && v <= 0x9f:
		return ftfy.UnescapeHTML("&#" + strconv.FormatUint(v, 10) + ";")
	}
	return string(rune(v))
}
