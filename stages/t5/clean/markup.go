package clean

import (
	"strings"
	"unicode/utf8"

	"latentbeam/stages/t5/ftfy"
)

// closeAfter returns the position of the first ">" from i on, or -1.
func (p *htmlParser) closeAfter(i int) int {
	if i > p.lastClose {
		return -1
	}
	return i + strings.IndexByte(p.raw[i:], '>')
}

// hiddenUntilClose parses a declaration, instruction or bogus comment at i. It ends at the first ">" after from.
func (p *htmlParser) hiddenUntilClose(i, from int) int {
	end := p.closeAfter(from)
	if end < 0 {
		return unfinished
	}
	p.tree.addHidden()
	return end + 1
}

// comment parses a comment: <!-- up to --, white space and >.
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

// skipSpace returns the end of the white space at i.
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

// markedSection parses <![name ... ]]> (such as CDATA) or <![if ... ]>.
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

// sectionEnd finds the closing brackets and ">" from i on, with optional white space between them. It returns their start and
// end, -1 if there are none.
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
