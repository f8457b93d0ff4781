package ftfy

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxSegment is the largest number of characters that are repaired together, if no line break comes first.
	maxSegment = 1_000_000
	// maxRounds limits the rounds over a segment. Real text needs two or three. Text that is made to need thousands
	// ("&amp;amp;amp;...") would take quadratic time, as it does in the library.
	maxRounds = 64
)

// Fix repairs text line by line. Bytes that are not UTF-8 become U+FFFD. After a line with "<", HTML entities are not decoded
// in that line and all later lines, because the text may be HTML.
func Fix(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	var out strings.Builder
	out.Grow(len(text))
	entities := true
	for text != "" {
		n := segmentEnd(text)
		segment := text[:n]
		text = text[n:]
		entities = entities && !strings.Contains(segment, "<")
		out.WriteString(fixSegment(segment, entities))
	}
	return out.String()
}

// segmentEnd returns the length of the first line with its break, or of maxSegment characters if that is shorter.
func segmentEnd(text string) int {
	end := strings.IndexByte(text, '\n') + 1
	if end == 0 {
		end = len(text)
	}
	if end <= maxSegment {
		return end
	}
	count := 0
	for i := range text[:end] {
		if count == maxSegment {
			return i
		}
		count++
	}
	return end
}

func fixSegment(text string, entities bool) string {
	for range maxRounds {
		fixed := repair(text, entities)
		if fixed == text {
			break
		}
		text = fixed
	}
	return text
}

// repair is one round of all repairs, in the library's order.
func repair(text string, entities bool) string {
	if entities {
		text = unescapeStrict(text)
	}
	if isASCII(text) {
		return removeControls(terminalEscape.ReplaceAllLiteralString(replaceCharacters(text), ""))
	}
	text = fixEncoding(text)
	text = replaceCharacters(text)
	text = terminalEscape.ReplaceAllLiteralString(text, "")
	text = removeControls(text)
	return composeNFC(text)
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
