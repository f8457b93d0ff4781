package clean

import (
	"strings"
	"unicode/utf8"

	"latentbeam/stages/t5/ftfy"
)

// startTag parses <name attributes> at i. If a tag cannot end there, all of it is text.
func (p *htmlParser) startTag(i int) int {
	if i > p.lastClose {
		return unfinished
	}
	nameEnd := p.tagNameEnd(i + 1)
	end := p.startTagEnd(nameEnd)
	if end < 0 {
		return unfinished
	}
	at := p.skipGaps(nameEnd)
	for at < end {
		next := p.attributeEnd(at)
		if next < 0 {
			break
		}
		at = next
	}
	closing := strings.TrimFunc(p.raw[min(at, end):end], ftfy.IsSpace)
	name := strings.ToLower(p.raw[i+1 : nameEnd])
	switch closing {
	case "/>":
		p.tree.startAndEnd(name)
	case ">":
		p.tree.start(name)
		if name == "script" || name == "style" {
			p.script = name
		}
	default:
		p.tree.add(p.raw[i:end])
	}
	return end
}

func (p *htmlParser) tagNameEnd(i int) int {
	if n := strings.IndexAny(p.raw[i:], "\t\n\r\f />\x00"); n >= 0 {
		return i + n
	}
	return len(p.raw)
}

// startTagEnd returns the end of the start tag whose name ends at i, or -1 if the text ends inside the tag.
func (p *htmlParser) startTagEnd(i int) int {
	for i < len(p.raw) {
		next := p.skipSpace(i)
		if strings.HasPrefix(p.raw[next:], "/") {
			next++
		}
		if next == i {
			break
		}
		i = next
	}
	for {
		next := p.attributeEnd(i)
		if next < 0 {
			break
		}
		i = next
	}
	i = p.skipSpace(i)
	rest := p.raw[i:]
	switch {
	case strings.HasPrefix(rest, ">"):
		return i + 1
	case strings.HasPrefix(rest, "/>"):
		return i + 2
	case rest == "", rest[0] == '/', rest[0] == '=', isLetter(rune(rest[0])):
		return -1
	}
	return i
}

// skipGaps skips white space and slashes, but not the slash of "/>".
func (p *htmlParser) skipGaps(i int) int {
	for {
		i = p.skipSpace(i)
		if !strings.HasPrefix(p.raw[i:], "/") || strings.HasPrefix(p.raw[i:], "/>") {
			return i
		}
		i++
	}
}

// attributeEnd returns the end of the attribute at i and the gap after it, or -1 if no attribute can start there.
func (p *htmlParser) attributeEnd(i int) int {
	before, _ := utf8.DecodeLastRuneInString(p.raw[:i])
	if !ftfy.IsSpace(before) && !strings.ContainsRune(`'"/`, before) || i == len(p.raw) {
		return -1
	}
	first, n := utf8.DecodeRuneInString(p.raw[i:])
	if ftfy.IsSpace(first) || first == '/' || first == '>' {
		return -1
	}
	end := i + n
	for end < len(p.raw) {
		r, n := utf8.DecodeRuneInString(p.raw[end:])
		if ftfy.IsSpace(r) || strings.ContainsRune("/=>", r) {
			break
		}
		end += n
	}
	return p.skipGaps(p.valueEnd(end))
}

// valueEnd returns the end of the equals signs and the value at i, or i if there are none.
func (p *htmlParser) valueEnd(i int) int {
	equals := p.skipSpace(i)
	end := equals
	for strings.HasPrefix(p.raw[end:], "=") {
		end++
	}
	if end == equals {
		return i
	}
	value := p.skipSpace(end)
	if value == len(p.raw) || p.raw[value] != '"' && p.raw[value] != '\'' {
		return p.bareEnd(value)
	}
	if n := strings.IndexByte(p.raw[value+1:], p.raw[value]); n >= 0 {
		return value + n + 2
	}
	// A quote that is not closed is no value. The result is then an empty value before the last space, else a value that starts
	// with an equals sign, else none.
	if value > end {
		_, n := utf8.DecodeLastRuneInString(p.raw[:value])
		return value - n
	}
	if end-equals > 1 {
		return p.bareEnd(end - 1)
	}
	return i
}

func (p *htmlParser) bareEnd(i int) int {
	n := strings.IndexFunc(p.raw[i:], func(r rune) bool { return r == '>' || ftfy.IsSpace(r) })
	if n < 0 {
		return len(p.raw)
	}
	return i + n
}

// endTag parses </name> at i. Without a name it is a comment, except "</>", which is ignored.
func (p *htmlParser) endTag(i int) int {
	end := p.closeAfter(i + 1)
	if end < 0 {
		return unfinished
	}
	if name, stop := p.endTagAt(i); stop > 0 {
		p.tree.closeElement(name)
		p.script = ""
		return stop
	}
	if !isLetter(rune(p.raw[i+2])) {
		if strings.HasPrefix(p.raw[i:], "</>") {
			return i + 3
		}
		return p.hiddenUntilClose(i, i+2)
	}
	nameEnd := p.tagNameEnd(i + 2)
	p.tree.closeElement(strings.ToLower(p.raw[i+2 : nameEnd]))
	return p.closeAfter(p.skipGaps(nameEnd)) + 1
}

// endTagAt returns the name and the end of a plain end tag at i; "" and 0 if there is none.
func (p *htmlParser) endTagAt(i int) (string, int) {
	start := p.skipSpace(i + 2)
	end := start
	for end < len(p.raw) && (isASCIIWord(p.raw[end], end > start) ||
		end > start && strings.IndexByte("-.:_", p.raw[end]) >= 0) {
		end++
	}
	stop := p.skipSpace(end)
	if end == start || !strings.HasPrefix(p.raw[stop:], ">") {
		return "", 0
	}
	return strings.ToLower(p.raw[start:end]), stop + 1
}
