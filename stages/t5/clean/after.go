package clean

import (
	"strings"

	"latentbeam/internal/ftfy"
)

// lettersDigits is a word of one to three letters and three to fifteen digits: jc6640.
func lettersDigits(t text, i int) int {
	if t.word(i - 1) {
		return 0
	}
	digits := t.skip(i, isLetter)
	if digits == i || digits > i+3 {
		return 0
	}
	end := t.skip(digits, isDigit)
	if end < digits+3 || end > digits+15 || t.word(end) {
		return 0
	}
	return end
}

// alternating is a word of runs of the kinds, each of at least one character.
func alternating(kinds ...func(rune) bool) matcher {
	return func(t text, i int) int {
		if t.word(i - 1) {
			return 0
		}
		for _, kind := range kinds {
			end := t.skip(i, kind)
			if end == i {
				return 0
			}
			i = end
		}
		if t.word(i) {
			return 0
		}
		return i
	}
}

var (
	lettersDigitsLetters = alternating(isLetter, isDigit, isLetter) // jc6640vc
	digitsLettersDigits  = alternating(isDigit, isLetter, isDigit)  // 6640vc231
)

// shipping is "worldwide free shipping"; the first two words may be missing.
func shipping(t text, i int) int {
	return t.has(t.skipWord(t.skipWord(i, "worldwide"), "free"), "shipping")
}

// skipWord is the position after the word at i and the white space that must follow it, or i itself.
func (t text) skipWord(i int, word string) int {
	end := t.has(i, word)
	if end == 0 || !t.is(end, ftfy.IsSpace) {
		return i
	}
	return t.skip(end, ftfy.IsSpace)
}

// download is "free download free"; each free may be missing.
func download(t text, i int) int {
	if end := t.has(i, "free"); end > 0 && t.is(end, ftfy.IsSpace) {
		i = end + 1
	}
	end := t.has(i, "download")
	if end > 0 && t.is(end, ftfy.IsSpace) {
		if free := t.has(end+1, "free"); free > 0 {
			return free
		}
	}
	return end
}

// clickFor is "click for" or "click on" and a word.
func clickFor(t text, i int) int {
	if t.word(i - 1) {
		return 0
	}
	end := t.has(i, "click")
	if end == 0 || !t.is(end, ftfy.IsSpace) {
		return 0
	}
	end = t.hasAny(end+1, []string{"for", "on"})
	if end == 0 || !t.is(end, ftfy.IsSpace) || !t.word(end+1) {
		return 0
	}
	return t.skip(end+1, ftfy.IsWord)
}

// fileType is a file type at the start of a word, and "image" or "images" after it.
func fileType(t text, i int) int {
	if t.word(i - 1) {
		return 0
	}
	end := t.hasAny(i, fileTypes)
	if end > 0 && t.is(end, ftfy.IsSpace) {
		if image := t.hasAny(end+1, []string{"images", "image"}); image > 0 {
			return image
		}
	}
	return end
}

// pageNumber is "page" and a number.
func pageNumber(t text, i int) int {
	if t.word(i - 1) {
		return 0
	}
	digits := t.skipWord(i, "page")
	end := t.skip(digits, isDigit)
	if digits == i || end == digits || t.word(end) {
		return 0
	}
	return end
}

// codeSoup is a word of letters and digits in turn, at least two runs of each: j2d1a2a.
func codeSoup(t text, i int) int {
	if t.word(i - 1) {
		return 0
	}
	i = t.skip(i, isDigit)
	for _, kind := range []func(rune) bool{isLetter, isDigit, isLetter, isDigit} {
		end := t.skip(i, kind)
		if end == i {
			return 0
		}
		i = end
	}
	if i = t.skip(i, isLetterOrDigit); t.word(i) {
		return 0
	}
	return i
}

// pixelSize is two numbers with an x between (Latin, Cyrillic or ×), with decimals or without: 1920x1080.
func pixelSize(t text, i int) int {
	if !isDigit(t[i]) || t.word(i-1) {
		return 0
	}
	i = t.skip(i, isDigit)
	if t.is(i, isDot) {
		i = t.skip(i+1, isDigit)
	}
	if !t.is(i, func(r rune) bool { return r == 'x' || r == 'х' || r == '×' }) || !t.is(i+1, isDigit) {
		return 0
	}
	end := t.skip(i+1, isDigit)
	if !t.is(end, isDot) {
		if t.word(end) {
			return 0
		}
		return end
	}
	// The dot and what follows belong to it as far as a boundary allows.
	for _, e := range []int{t.skip(end+1, isDigit), end + 1} {
		if t.boundary(e) {
			return e
		}
	}
	return end
}

// spacedColon is a colon with white space on both sides, after a word.
func spacedColon(t text, i int) int {
	if !ftfy.IsSpace(t[i]) || !t.word(i-1) {
		return 0
	}
	colon := t.skip(i, ftfy.IsSpace)
	if !t.is(colon, func(r rune) bool { return r == ':' }) {
		return 0
	}
	if end := t.skip(colon+1, ftfy.IsSpace); end > colon+1 {
		return end
	}
	return 0
}

// spaceAfterMarks puts a space between a comma, dot or slash and a word, unless a digit stands before
// the mark.
func spaceAfterMarks(t text) text {
	out := make(text, 0, len(t)+len(t)/8)
	for i := 0; i < len(t); i++ {
		out = append(out, t[i])
		if isDigit(t[i]) || !t.is(i+1, isListMark) || !t.word(i+2) {
			continue
		}
		out = append(out, t[i+1], ' ')
		i++
	}
	return out
}

func isListMark(r rune) bool { return r == ',' || r == '.' || r == '/' }

// trimMarks removes one pair of quotes around the text, one mark at either end, all of a dot with something
// behind it and no space, and spaces at the ends. All white space is single spaces here.
func trimMarks(s string) string {
	if n := len(s); n > 2 && isQuote(rune(s[0])) && isQuote(rune(s[n-1])) {
		s = s[1 : n-1]
	}
	if s != "" && strings.ContainsRune("'_,-:;", rune(s[0])) {
		s = s[1:]
	}
	if n := len(s); n > 0 && strings.ContainsRune("'_,-:+", rune(s[n-1])) {
		s = s[:n-1]
	}
	if len(s) > 1 && s[0] == '.' && !strings.Contains(s, " ") {
		return ""
	}
	return strings.TrimFunc(s, ftfy.IsSpace)
}
