package ftfy

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMarks is the longest run of combining marks that x/text composes without inserting U+034F (the stream-safe format of UAX
// 15, section 13).
const maxMarks = 30

// composeNFC returns s in normalisation form C. Unlike norm.NFC it never inserts a character.
func composeNFC(s string) string {
	if norm.NFC.QuickSpanString(s) == len(s) && longestMarks(s) <= maxMarks {
		return s
	}
	if longestMarks(s) <= maxMarks {
		return norm.NFC.String(s)
	}
	return string(compose(decompose(s)))
}

// longestMarks returns the length of the longest run of decomposed characters that are not starters.
func longestMarks(s string) int {
	longest, run := 0, 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			run = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		d := p.Decomposition()
		switch {
		case p.CCC() != 0:
			run += max(1, utf8.RuneCount(d))
		case len(d) > 0:
			run = utf8.RuneCount(d) - 1
		default:
			run = 0
		}
		longest = max(longest, run)
		i += max(1, p.Size())
	}
	return longest
}

func ccc(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }

// decompose returns the canonical decomposition of s in canonical order.
func decompose(s string) []rune {
	var out []rune
	for _, r := range s {
		// A single character never has more than maxMarks marks.
		out = append(out, []rune(norm.NFD.String(string(r)))...)
	}
	for i := 0; i < len(out); i++ {
		end := i
		for end < len(out) && ccc(out[end]) != 0 {
			end++
		}
		slices.SortStableFunc(out[i:end], func(a, b rune) int { return int(ccc(a)) - int(ccc(b)) })
		i = end
	}
	return out
}

// compose joins starters with the following marks that are not blocked (UAX 15, definition D117).
func compose(text []rune) []rune {
	out := text[:0:0]
	starter := -1
	lastClass := uint8(0)
	for _, r := range text {
		class := ccc(r)
		if starter >= 0 && (len(out) == starter+1 || lastClass < class) {
			if joined, ok := pair(out[starter], r); ok {
				out[starter] = joined
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		lastClass = class
		out = append(out, r)
	}
	return out
}

func pair(a, b rune) (rune, bool) {
	joined := norm.NFC.String(string([]rune{a, b}))
	r, n := utf8.DecodeRuneInString(joined)
	return r, n == len(joined)
}
