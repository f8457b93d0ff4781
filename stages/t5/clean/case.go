package clean

import (
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// LowerCase is Python's str.lower: the full mapping of Unicode. The dot of İ is kept, and a final sigma becomes ς.
func LowerCase(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.Map(unicode.ToLower, s)
	}
	t := []rune(s)
	var out strings.Builder
	for i, r := range t {
		switch {
		case r == 'İ':
			out.WriteString("i\u0307")
		case r == 'Σ' && isFinalSigma(t, i):
			out.WriteRune('ς')
		default:
			out.WriteRune(unicode.ToLower(r))
		}
	}
	return out.String()
}

// isFinalSigma reports whether there is a cased letter before i and none after it, ignoring marks (Unicode standard, section
// 3.13, Final_Sigma).
func isFinalSigma(t []rune, i int) bool {
	before := i - 1
	for before >= 0 && isCaseIgnorable(t[before]) {
		before--
	}
	if before < 0 || !isCased(t[before]) {
		return false
	}
	after := i + 1
	for after < len(t) && isCaseIgnorable(t[after]) {
		after++
	}
	return after == len(t) || !isCased(t[after])
}

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// isCaseIgnorable is the derived Unicode property: marks, format characters, modifiers, and punctuation that may occur inside
// words.
func isCaseIgnorable(r rune) bool {
	return strings.ContainsRune("'.:··՟״‘’․‧︓﹒﹕＇．：", r) ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// unquotePlus decodes %XX as UTF-8 and plus signs as spaces (Python's urllib.parse.unquote_plus).
func unquotePlus(s string) string {
	s = strings.ReplaceAll(s, "+", " ")
	if !strings.Contains(s, "%") {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	for s != "" {
		// A non-ASCII character ends a sequence of encoded bytes.
		n := len(s)
		if i := strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
			n = i
		}
		writeUTF8(&out, percentDecoded(s[:n]))
		s = s[n:]
		n = len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }))
		out.WriteString(s[:n])
		s = s[n:]
	}
	return out.String()
}

func percentDecoded(s string) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				out = append(out, c...)
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return out
}

// writeUTF8 writes bytes as text. An incomplete character becomes one U+FFFD (Unicode standard, section 3.9, "maximal
// subpart"). Go would write one for each byte.
func writeUTF8(out *strings.Builder, b []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = subpart(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
}

// subpart returns the number of bytes at the start of b that could start a character.
func subpart(b []byte) int {
	n := 1
	// FullRune is false while bytes are missing. It becomes true when the next byte is known to be wrong.
	for n < len(b) && !utf8.FullRune(b[:n]) {
		n++
	}
	if utf8.FullRune(b[:n]) && n > 1 {
		n--
	}
	return n
}
