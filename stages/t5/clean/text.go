package clean

import (
	"unicode"

	"latentbeam/internal/ftfy"
)

// text is a caption as characters. Words, digits, spaces and boundaries are Unicode's, as in Python's
// regular expressions; package regexp has only ASCII ones, so every pattern here is a small matcher.
type text []rune

// A matcher returns where the pattern that starts at i ends, or 0 if it does not match there.
type matcher func(t text, i int) int

// replacing makes the step that replaces every match, left to right, by with.
func replacing(m matcher, with string) step {
	insert := []rune(with)
	return func(t text) text {
		var out text
		kept := 0
		for i := 0; i < len(t); {
			end := m(t, i)
			if end <= i {
				i++
				continue
			}
			out = append(append(out, t[kept:i]...), insert...)
			i, kept = end, end
		}
		if kept == 0 {
			return t
		}
		return append(out, t[kept:]...)
	}
}

// word says whether position i holds a word character; outside of the text there is none.
func (t text) word(i int) bool { return i >= 0 && i < len(t) && ftfy.IsWord(t[i]) }

// boundary says whether a word begins or ends between i-1 and i.
func (t text) boundary(i int) bool { return t.word(i-1) != t.word(i) }

// is says whether position i holds a character of the kind.
func (t text) is(i int, kind func(rune) bool) bool { return i < len(t) && kind(t[i]) }

// skip is the end of the run of the kind that begins at i, i itself if there is none.
func (t text) skip(i int, kind func(rune) bool) int {
	for i < len(t) && kind(t[i]) {
		i++
	}
	return i
}

// has is the end of s at i, 0 if something else is there.
func (t text) has(i int, s string) int {
	for _, r := range s {
		if i >= len(t) || t[i] != r {
			return 0
		}
		i++
	}
	return i
}

// hasAny is the end of the first of words that is at i, 0 if none is.
func (t text) hasAny(i int, words []string) int {
	for _, w := range words {
		if end := t.has(i, w); end > 0 {
			return end
		}
	}
	return 0
}

func literal(s string) matcher {
	return func(t text, i int) int { return t.has(i, s) }
}

func runOf(kind func(rune) bool) matcher {
	return func(t text, i int) int { return t.skip(i, kind) }
}

func twoOrMore(kind func(rune) bool) matcher {
	return func(t text, i int) int {
		if end := t.skip(i, kind); end >= i+2 {
			return end
		}
		return 0
	}
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// isDigit is Python's \d: the decimal digits of all scripts.
func isDigit(r rune) bool {
	if r < 0x80 {
		return r >= '0' && r <= '9'
	}
	return unicode.IsDigit(r)
}

func isLetterOrDigit(r rune) bool { return isLetter(r) || isDigit(r) }

func isNoSpace(r rune) bool { return !ftfy.IsSpace(r) }

func isDot(r rune) bool { return r == '.' }

func isQuote(r rune) bool { return r == '"' || r == '\'' }

// isChinese: strokes, phonetic extensions, enclosed and compatibility characters, hexagrams, ideographs.
func isChinese(r rune) bool { return r >= 0x31c0 && r <= 0x9fff }

// firstIdeograph begins the unified ideographs.
const firstIdeograph = 0x4e00

func isDash(r rune) bool {
	switch r {
	case '-', 0x058a, 0x05be, 0x1400, 0x1806, 0x2e17, 0x2e1a, 0x2e3a, 0x2e3b, 0x2e40, 0x301c, 0x3030, 0x30a0,
		0xfe31, 0xfe32, 0xfe58, 0xfe63, 0xff0d:
		return true
	}
	return r >= 0x2010 && r <= 0x2015
}

func isBadPunctuation(r rune) bool {
	switch r {
	case '#', '®', '•', '©', '™', '&', '@', '·', 'º', '½', '¾', '¿', '¡', '§', '~',
		')', '(', ']', '[', '}', '{', '|', '\\', '/', '*':
		return true
	}
	return false
}
