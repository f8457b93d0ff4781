package clean

import (
	"errors"
	"strings"
)

// htmlText returns the text of a caption that is parsed as HTML. It follows Python 3.11's html.parser, not HTML 5. The two
// agree on real markup. They differ on "a < b", "<3" and unfinished markup, which is frequent in captions.
func htmlText(raw string) string {
	p := &htmlParser{raw: raw, tree: newSoup(), lastClose: strings.LastIndexByte(raw, '>')}
	// The first walk stops if it would need more text. The second walk knows that there is no more.
	i, err := p.walk(0, false)
	if err == nil {
		_, err = p.walk(i, true)
	}
	if err != nil {
		return raw
	}
	return p.tree.text()
}

// errRejected means that the reference fails on this markup.
var errRejected = errors.New("markup is rejected")

type htmlParser struct {
	raw       string
	tree      *soup
	script    string  // the open script or style element; only its end tag is markup
	lastClose int     // position of the last ">"
	noComment bool    // no comment ends after this position
	noSection [3]bool // no marked section with this number of brackets ends after this position
}

// walk parses from i and returns where it stopped.
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

// nextMarkup returns where text ends: at "<" or "&", at the end, or inside a script at its end tag. It returns -1 if that never
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

// readTag parses the markup that "<" at i starts. It returns where to continue and whether to continue.
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
	// Unfinished markup is text up to the next ">", otherwise only "<" is text.
	if n := p.closeAfter(i + 1); n >= 0 {
		end = n + 1
	} else if n := strings.IndexByte(p.raw[i+1:], '<'); n >= 0 {
		end = i + n + 1
	} else {
		end = i + 1
	}
	p.tree.add(p.raw[i:end])
	return end, true, nil
}

// Special results of tagEnd.
const (
	unfinished = -1 // the markup does not end
	plainText  = -2 // "<" is just a character
)

// tagEnd processes the markup at i and returns its end.
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
