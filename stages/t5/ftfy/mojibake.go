package ftfy

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// fixEncoding reverses mojibake: UTF-8 that was read as a single-byte encoding, once or several times, in the whole text or in
// parts of it. Text that does not look like mojibake does not change.
func fixEncoding(text string) string {
	for range maxRounds {
		fixed := fixEncodingOnce(text)
		if fixed == text {
			break
		}
		text = fixed
	}
	return text
}

func fixEncodingOnce(text string) string {
	if isASCII(text) {
		return text
	}
	if !isBad(text) {
		return text
	}
	for _, page := range codepages {
		if encoded, ok := page.encode(text); ok {
			if decoded, ok := page.redecode(encoded); ok {
				return decoded
			}
		}
	}
	if fixed, ok := fixEmbedded([]rune(text)); ok {
		return fixed
	}
	return fixC1(text)
}

// redecode decodes bytes as UTF-8. It first repairs the damage of reading them as c: no-break spaces that became spaces, and
// lost bytes.
func (c *codepage) redecode(b []byte) (string, bool) {
	var text strings.Builder
	for _, v := range b {
		text.WriteRune(rune(v))
	}
	mended := text.String()
	if !c.dashIsSpaceLike {
		mended = restoreSpaces(mended)
	}
	if c.sloppy {
		mended = replaceLost(mended)
	}
	b, _ = latin1.encode(mended) // Latin-1 has all bytes
	return decodeVariants(b)
}

// fixEmbedded repairs parts of text that look like mojibake themselves, and reports whether it changed anything.
func fixEmbedded(text []rune) (string, bool) {
	var out strings.Builder
	changed := false
	for i := 0; i < len(text); {
		n := 0
		if i == 0 || clueOf(text[i-1])&clueContinuationStrict == 0 {
			n = clueRun(text[i:])
		}
		part := string(text[i : i+max(n, 1)])
		// A part that is the whole text would be tried forever.
		if n > 0 && n < len(text) && isBad(part) {
			fixed := fixEncoding(part)
			changed = changed || fixed != part
			part = fixed
		}
		out.WriteString(part)
		i += max(n, 1)
	}
	return out.String(), changed
}

// clueRun returns the length of the longest start of text that consists of sequences that look like UTF-8 read in a code page.
func clueRun(text []rune) int {
	n := 0
	for n < len(text) {
		first := clueOf(text[n])
		size := 0
		for _, s := range []struct {
			clue clue
			size int
		}{{clueFirstOf2, 2}, {clueFirstOf3, 3}, {clueFirstOf4, 4}} {
			if first&s.clue != 0 && allContinue(text[n+1:], s.size-1) {
				size = s.size
				break
			}
		}
		if size == 0 {
			break
		}
		n += size
	}
	return n
}

func allContinue(text []rune, n int) bool {
	if len(text) < n {
		return false
	}
	for _, r := range text[:n] {
		if clueOf(r)&clueContinuation == 0 {
			return false
		}
	}
	return true
}

// fixC1 is the last attempt: it replaces C1 controls by the characters of Windows-1252.
func fixC1(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 && r <= 0x9f {
			return windows1252.decode(byte(r))
		}
		return r
	}, text)
}

// decodeVariants decodes UTF-8, including two variants of Java: NUL as C0 80, and characters beyond the basic plane as two
// surrogates of three bytes each (CESU-8). It fails for anything else.
func decodeVariants(b []byte) (string, bool) {
	if bytes.IndexByte(b, 0xed) < 0 && bytes.IndexByte(b, 0xc0) < 0 {
		return string(b), utf8.Valid(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if r, n = decodeJava(b); n == 0 {
				return "", false
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String(), true
}

func decodeJava(b []byte) (rune, int) {
	in := func(i int, lo, hi byte) bool { return b[i] >= lo && b[i] <= hi }
	if len(b) >= 2 && b[0] == 0xc0 && b[1] == 0x80 {
		return 0, 2
	}
	if len(b) >= 6 && b[0] == 0xed && in(1, 0xa0, 0xaf) && in(2, 0x80, 0xbf) &&
		b[3] == 0xed && in(4, 0xb0, 0xbf) && in(5, 0x80, 0xbf) {
		return rune(b[1]&0xf)<<16 + rune(b[2]&0x3f)<<10 + rune(b[4]&0xf)<<6 + rune(b[5]&0x3f) + 0x10000, 6
	}
	return 0, 0
}
