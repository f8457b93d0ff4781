package logs

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// unseen lists characters, beside control characters, that can make a text look like another text: they reverse the order of
// characters (such as U+202E), end lines, have no width, or are tags. It does not include U+00AD, a hyphen at the end of a line, and
// U+200C and U+200D, which Persian, Indic scripts and emoji need.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{{0x061c, 0x061c, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1}, {0x180b, 0x180f, 1}, {0x200b, 0x200b, 1},
		{0x200e, 0x200f, 1}, {0x2028, 0x202e, 1}, {0x2060, 0x206f, 1}, {0x3164, 0x3164, 1}, {0xfeff, 0xfeff, 1}, {0xffa0, 0xffa0, 1},
		{0xfff0, 0xfffb, 1}},
	R32: []unicode.Range32{{0x1bca0, 0x1bca3, 1}, {0x1d173, 0x1d17a, 1}, {0xe0000, 0xe0fff, 1}},
}

// hidden reports whether Visible escapes a character. Line feeds and tabs are not escaped.
func hidden(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || unicode.Is(unseen, r)
}

// Visible escapes characters that control a terminal or deceive a reader, such as \u202e. The escapes are valid in JSON strings, so
// escaped JSON has the same meaning. Bytes that are not UTF-8 become escapes like \x9b.
func Visible(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case !hidden(r):
			b.WriteString(text[:n])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b.String()
}

// VisibleWriter passes text through Visible and writes it to another writer. It is safe for concurrent use.
type VisibleWriter struct {
	To io.Writer

	mu   sync.Mutex
	rest []byte // first bytes of an incomplete character
}

// Write implements io.Writer. An incomplete character at the end of p is written with the next call.
func (v *VisibleWriter) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := append(v.rest, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	v.rest = append([]byte(nil), text[whole:]...)
	_, err := io.WriteString(v.To, Visible(string(text[:whole])))
	return len(p), err
}
