package t5

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"latentbeam/internal/ftfy"
)

// htmlText is the text of a caption read as HTML. It follows Python 3.11's html.parser, not HTML 5: the two
// agree on real markup and differ on "a < b", "<3" and everything unfinished, which captions are full of.
func htmlText(raw string) string {
	p := &htmlParser{raw: raw, tree: newSoup(), lastClose: strings.LastIndexByte(raw, '>')}
	// The first walk stops where it would need more text; the second knows that there is none.
	i, err := p.walk(0, false)
	if err == nil {
		_, err = p.walk(i, true)
	}
	if err != nil {
		return raw
	}
	return p.tree.text()
}

// errRejected: the reference fails on this markup.
var errRejected = errors.New("markup is rejected")

type htmlParser struct {
	raw       string
	tree      *soup
	script    string  // the open script or style element, in which nothing but its end is markup
	lastClose int     // of the last ">"
	noComment bool    // no comment ends after here
	noSection [3]bool // no marked section with so many brackets ends after here
}

// walk reads from i and returns where it stopped.
func (p *htmlParser) walk(i int, final bool) (int, error) {
	for more := true; more && i < len(p.raw); {
		next := p.nextMarkup(i)
		if next < 0 {
			break
		}
		if next > i {
			p.tree.add(p.raw[i:next])
		}
		if i = next; i == len(p.raw) {
			break
		}
		var err error
		if p.raw[i] == '<' {
			i, more, err = p.readTag(i, final)
		} else {
			i, more = p.readReference(i, final)
		}
		if err != nil {
			return i, err
		}
	}
	if final && i < len(p.raw) && p.script == "" {
		p.tree.add(p.raw[i:])
		i = len(p.raw)
	}
	return i, nil
}

// nextMarkup is where text ends: at "<" or "&", at the end, in a script at its end tag. -1 if that never
// comes.
func (p *htmlParser) nextMarkup(i int) int {
	if p.script == "" {
		if n := strings.IndexAny(p.raw[i:], "&<"); n >= 0 {
			return i + n
		}
		return len(p.raw)
	}
	for {
		n := strings.Index(p.raw[i:], "</")
		if n < 0 {
			return -1
		}
		i += n
		if name, _ := p.endTagAt(i); name == p.script {
			return i
		}
		i += 2
	}
}

// readTag reads what "<" at i begins, and says where to go on and whether to.
func (p *htmlParser) readTag(i int, final bool) (int, bool, error) {
	end, err := p.tagEnd(i)
	if err != nil {
		return i, false, err
	}
	if end == plainText {
		if i+1 == len(p.raw) {
			return i, false, nil
		}
		end = i + 1
		p.tree.add("<")
	}
	if end >= 0 {
		return end, true, nil
	}
	if !final {
		return i, false, nil
	}
	// Unfinished markup is text up to the next ">", else "<".
	if n := strings.IndexByte(p.raw[i+1:], '>'); n >= 0 {
		end = i + n + 2
	} else if n := strings.IndexByte(p.raw[i+1:], '<'); n >= 0 {
		end = i + n + 1
	} else {
		end = i + 1
	}
	p.tree.add(p.raw[i:end])
	return end, true, nil
}

// Results of tagEnd besides positions.
const (
	unfinished = -1 // the markup does not end
	plainText  = -2 // "<" is just a character
)

// tagEnd handles the markup at i and returns where it ends.
func (p *htmlParser) tagEnd(i int) (int, error) {
	rest := p.raw[i:]
	switch {
	case len(rest) > 1 && isLetter(rune(rest[1])):
		return p.startTag(i), nil
	case strings.HasPrefix(rest, "</"):
		return p.endTag(i), nil
	case strings.HasPrefix(rest, "<!--"):
		return p.comment(i), nil
	case strings.HasPrefix(rest, "<!["):
		return p.markedSection(i)
	case strings.HasPrefix(rest, "<!doctype"):
		return p.hiddenUntilClose(i, i+len("<!doctype")), nil
	case strings.HasPrefix(rest, "<?"), strings.HasPrefix(rest, "<!"):
		return p.hiddenUntilClose(i, i+2), nil
	}
	return plainText, nil
}

// closeAfter is the position of the first ">" from i on, or -1.
func (p *htmlParser) closeAfter(i int) int {
	if i > p.lastClose {
		return -1
	}
	return i + strings.IndexByte(p.raw[i:], '>')
}

// hiddenUntilClose reads a declaration, instruction or bogus comment at i, which ends at the first ">"
// after from.
func (p *htmlParser) hiddenUntilClose(i, from int) int {
	end := p.closeAfter(from)
	if end < 0 {
		return unfinished
	}
	p.tree.addHidden()
	return end + 1
}

// comment reads <!-- to --, white space and >.
func (p *htmlParser) comment(i int) int {
	if p.noComment {
		return unfinished
	}
	for from := i + len("<!--"); ; {
		n := strings.Index(p.raw[from:], "--")
		if n < 0 {
			p.noComment = true
			return unfinished
		}
		from += n
		if end := p.skipSpace(from + 2); strings.HasPrefix(p.raw[end:], ">") {
			p.tree.addHidden()
			return end + 1
		}
		from++
	}
}

// skipSpace is the end of the white space at i.
func (p *htmlParser) skipSpace(i int) int {
	for i < len(p.raw) {
		r, n := utf8.DecodeRuneInString(p.raw[i:])
		if !ftfy.IsSpace(r) {
			break
		}
		i += n
	}
	return i
}

// markedSection reads <![name ... ]]> (CDATA and its kin) or <![if ... ]>.
func (p *htmlParser) markedSection(i int) (int, error) {
	start := i + len("<![")
	end := start
	for end < len(p.raw) && (isASCIIWord(p.raw[end], end > start) ||
		end > start && strings.IndexByte("-_.", p.raw[end]) >= 0) {
		end++
	}
	if start == len(p.raw) {
		return unfinished, nil
	}
	if end == start {
		return 0, errRejected
	}
	name := p.raw[start:end]
	if p.skipSpace(end) == len(p.raw) {
		return unfinished, nil
	}
	brackets := 2
	switch name {
	case "temp", "cdata", "ignore", "include", "rcdata":
	case "if", "else", "endif":
		brackets = 1
	default:
		return 0, errRejected
	}
	at, stop := p.sectionEnd(start, brackets)
	if stop < 0 {
		return unfinished, nil
	}
	if data, ok := strings.CutPrefix(p.raw[start:at], "cdata["); ok {
		p.tree.addCharacters(data)
	} else {
		p.tree.addHidden()
	}
	return stop, nil
}

func isASCIIWord(c byte, digits bool) bool {
	return isLetter(rune(c)) || digits && c >= '0' && c <= '9'
}

// sectionEnd finds the closing brackets and ">" from i on, white space allowed between them: where they
// begin and where they end, -1 if there are none.
func (p *htmlParser) sectionEnd(i, brackets int) (int, int) {
	for !p.noSection[brackets] {
		n := strings.IndexByte(p.raw[i:], ']')
		if n < 0 {
			p.noSection[brackets] = true
			break
		}
		i += n
		end := i
		for k := 0; k < brackets && strings.HasPrefix(p.raw[end:], "]"); k++ {
			if end = p.skipSpace(end + 1); k == brackets-1 && strings.HasPrefix(p.raw[end:], ">") {
				return i, end + 1
			}
		}
		i++
	}
	return -1, -1
}

// readReference reads what "&" at i begins, and says where to go on and whether to.
func (p *htmlParser) readReference(i int, final bool) (int, bool) {
	rest := p.raw[i:]
	if strings.HasPrefix(rest, "&#") {
		if n := numberLength(rest); n > 0 {
			p.tree.add(referencedCharacter(rest[2:n]))
			return i + n + semicolon(rest[n:]), true
		}
		if strings.Contains(rest, ";") {
			p.tree.add("&#")
			return i + 2, false
		}
		return i, false
	}
	if n := nameEnd(rest); n > 0 {
		name := rest[1:n]
		if text, ok := ftfy.Entity(name); ok {
			p.tree.add(text)
		} else {
			p.tree.add("&" + name)
		}
		return i + n + semicolon(rest[n:]), true
	}
	if len(rest) > 1 && isLetter(rune(rest[1])) {
		// A name that the end of the text cuts off. The reference drops the ampersand before a single
		// letter.
		if final && len(rest) == 2 {
			return i + 1, false
		}
		return i, false
	}
	if len(rest) > 1 {
		p.tree.add("&")
		return i + 1, true
	}
	return i, false
}

func semicolon(s string) int {
	if strings.HasPrefix(s, ";") {
		return 1
	}
	return 0
}

// numberLength is the length of "&#" and a number at the start of s, if something follows that cannot
// belong to it; 0 otherwise.
func numberLength(s string) int {
	digits, start := "0123456789", 2
	if len(s) > 2 && (s[2] == 'x' || s[2] == 'X') {
		digits, start = "0123456789abcdefABCDEF", 3
	}
	end := len(s) - len(strings.TrimLeft(s[start:], digits))
	if end == start || end == len(s) || strings.IndexByte("0123456789abcdefABCDEF", s[end]) >= 0 {
		return 0
	}
	return end
}

// nameEnd is the end of "&" and a name at the start of s. Something that is no letter or digit must
// follow; a name may hold hyphens and dots, and at the end of the text gives its last one back.
func nameEnd(s string) int {
	if len(s) < 2 || !isLetter(rune(s[1])) {
		return 0
	}
	end, mark := 2, 0
	for end < len(s) {
		if s[end] == '-' || s[end] == '.' {
			mark = end
		} else if !isASCIIWord(s[end], true) {
			return end
		}
		end++
	}
	return mark
}

// referencedCharacter is the character of a number, which x begins if it is hexadecimal.
func referencedCharacter(number string) string {
	base := 10
	if number[0] == 'x' || number[0] == 'X' {
		number, base = number[1:], 16
	}
	v, err := strconv.ParseUint(number, base, 32)
	switch {
	case err != nil, v == 0, v > unicode.MaxRune, v >= 0xd800 && v <= 0xdfff:
		return "\uFFFD"
	case v >= 0x80 && v <= 0x9f:
		return ftfy.UnescapeHTML("&#" + strconv.FormatUint(v, 10) + ";")
	}
	return string(rune(v))
}
