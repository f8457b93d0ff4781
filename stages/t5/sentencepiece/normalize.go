package sentencepiece

import (
	"strings"
	"unicode/utf8"
)

// normalize applies the model's character rules and makes spaces visible. If the model says so, it merges runs of spaces,
// removes spaces at both ends, and adds one at the front or the end (Normalizer::Normalize).
func (m *Model) normalize(s string) string {
	if m.trimSpace {
		for s != "" {
			r, n := m.nextReplacement(s)
			if r != " " {
				break
			}
			s = s[n:]
		}
	}
	if s == "" {
		return ""
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/2 + len(m.space))
	if m.dummyPrefix && !m.spaceSuffix {
		b.WriteString(m.space)
	}
	afterSpace := m.trimSpace
	for s != "" {
		r, n := m.nextReplacement(s)
		s = s[n:]
		if afterSpace {
			r = strings.TrimLeft(r, " ")
		}
		if r != "" {
			m.writeEscaped(&b, r)
			afterSpace = m.trimSpace && r[len(r)-1] == ' '
		}
	}
	out := b.String()
	if m.trimSpace {
		for strings.HasSuffix(out, m.space) {
			out = out[:len(out)-len(m.space)]
		}
	}
	if m.dummyPrefix && m.spaceSuffix {
		out += m.space
	}
	return out
}

func (m *Model) writeEscaped(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == ' ' {
			b.WriteString(m.space)
		} else {
			b.WriteByte(s[i])
		}
	}
}

// nextReplacement returns the normalised form of the start of s, and its length in bytes: a user-defined symbol unchanged, else
// the longest matching character rule, else one character, else U+FFFD for a byte that is not UTF-8.
func (m *Model) nextReplacement(s string) (string, int) {
	if m.symbols != nil {
		if n := m.symbols.longest(s); n > 0 {
			return s[:n], n
		}
	}
	if m.charsmap != nil {
		if r, n := m.charsmap.lookup(s); n > 0 {
			return r, n
		}
	}
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return "\uFFFD", 1
	}
	return s[:n], n
}
