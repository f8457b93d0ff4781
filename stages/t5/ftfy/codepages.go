package ftfy

import (
	"golang.org/x/text/encoding/charmap"
)

// substitute is the byte for U+FFFD in a sloppy code page: a character was lost there.
const substitute = 0x1a

// codepage is a single-byte encoding in which mojibake may have been read. All code pages keep ASCII.
type codepage struct {
	chars [256]rune
	bytes map[rune]byte
	// sloppy code pages read a byte without a character as Latin-1 does, and substitute as U+FFFD.
	sloppy bool
	// dashIsSpaceLike is set for MacRoman, where an en dash before a space looks like a damaged letter.
	dashIsSpaceLike bool
}

var (
	latin1      = newCodepage(charmap.ISO8859_1, false)
	windows1252 = newCodepage(charmap.Windows1252, true)
	// latinLike are the code pages whose upper half resembles Latin-1's. Embedded mojibake consists of their characters.
	latinLike = []*codepage{
		latin1, windows1252, newCodepage(charmap.Windows1251, true), newCodepage(charmap.Windows1250, true),
		newCodepage(charmap.Windows1253, true), newCodepage(charmap.Windows1254, true),
		newCodepage(charmap.Windows1257, true),
	}
	// codepages are all code pages that are tried, in this order.
	codepages = append(latinLike[:len(latinLike):len(latinLike)],
		newCodepage(charmap.ISO8859_2, false), macRoman(), newCodepage(charmap.CodePage437, false))
)

func newCodepage(m *charmap.Charmap, sloppy bool) *codepage {
	c := &codepage{bytes: map[rune]byte{}, sloppy: sloppy}
	for i := range c.chars {
		r := m.DecodeByte(byte(i))
		if r == '\uFFFD' {
			r = rune(i)
		}
		if i == substitute && sloppy {
			r = '\uFFFD'
		}
		c.chars[i] = r
		c.bytes[r] = byte(i)
	}
	return c
}

func macRoman() *codepage {
	c := newCodepage(charmap.Macintosh, false)
	c.dashIsSpaceLike = true
	return c
}

func (c *codepage) decode(b byte) rune { return c.chars[b] }

// encode returns the bytes of text, and false if a character is not in the code page.
func (c *codepage) encode(text string) ([]byte, bool) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r < 0x80 && r != substitute {
			out = append(out, byte(r))
			continue
		}
		b, ok := c.bytes[r]
		if !ok {
			return nil, false
		}
		out = append(out, b)
	}
	return out, true
}
