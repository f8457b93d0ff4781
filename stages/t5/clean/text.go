package clean

import "latentbeam/stages/t5/ftfy"

// text is a caption as characters, for patterns that need look-around or would take quadratic time as regular expressions.
type text []rune

// word reports whether position i has a word character. It is false outside of the text.
func (t text) word(i int) bool { return i >= 0 && i < len(t) && ftfy.IsWord(t[i]) }

// boundary reports whether a word starts or ends between i-1 and i.
func (t text) boundary(i int) bool { return t.word(i-1) != t.word(i) }

// is reports whether position i has a character of the kind.
func (t text) is(i int, kind func(rune) bool) bool { return i < len(t) && kind(t[i]) }

// skip returns the end of the run of the kind that starts at i, or i if there is none.
func (t text) skip(i int, kind func(rune) bool) int {
	for i < len(t) && kind(t[i]) {
		i++
	}
	return i
}

// has returns the end of s at i, 0 if s is not there.
func (t text) has(i int, s string) int {
	for _, r := range s {
		if i >= len(t) || t[i] != r {
			return 0
		}
		i++
	}
	return i
}

// hasAny returns the end of the first of words that is at i, 0 if none is.
func (t text) hasAny(i int, words []string) int {
	for _, w := range words {
		if end := t.has(i, w); end > 0 {
			return end
		}
	}
	return 0
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
