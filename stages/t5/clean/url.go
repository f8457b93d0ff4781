package clean

import "latentbeam/stages/t5/ftfy"

var topLevelDomains = []string{"com", "co", "ru", "net", "org", "edu", "gov", "it"}

// deleteURLs deletes two things that start at a word boundary. One is the scheme with its colon and one to three slashes or one
// letter, digit or percent sign ("https:" also for "http"); the rest of such a URL stays unless it is a host. The other is a
// host name with a path.
func deleteURLs(t text, scheme string) text {
	var out text
	kept := 0
	var host hostRun
	for i := 0; i < len(t); {
		end := 0
		if t.boundary(i) {
			if end = schemeEnd(t, i, scheme); end == 0 {
				end = host.match(t, i)
			}
		}
		if end == 0 {
			i++
			continue
		}
		out = append(out, t[kept:i]...)
		i, kept = end, end
	}
	if kept == 0 {
		return t
	}
	return append(out, t[kept:]...)
}

// schemeEnd returns the end of the scheme, the colon and what must follow at i; 0 if there is none.
func schemeEnd(t text, i int, scheme string) int {
	end := t.has(i, scheme)
	if end > 0 && scheme == "http" && t.is(end, func(r rune) bool { return r == 's' }) {
		end++
	}
	if end == 0 || !t.is(end, func(r rune) bool { return r == ':' }) {
		return 0
	}
	end++
	isSlash := func(r rune) bool { return r == '/' }
	if t.is(end, isSlash) {
		return min(t.skip(end, isSlash), end+3)
	}
	if t.is(end, func(r rune) bool { return r == '%' || r < 0x80 && isASCIIWord(byte(r), true) }) {
		return end + 1
	}
	return 0
}

// hostRun is a run of characters of host names, with the last dot that is followed by a top-level domain at which a URL may
// end. It is computed once per run, so that long runs take linear time.
type hostRun struct {
	end int // of the run
	dot int // -1 if there is none
	url int // where the URL with that dot ends
}

// match returns the end of the host name and path that start at i, 0 if there are none.
func (h *hostRun) match(t text, i int) int {
	if i >= h.end {
		*h = findHost(t, i)
	}
	if h.dot <= i {
		return 0
	}
	return h.url
}

func findHost(t text, i int) hostRun {
	h := hostRun{end: t.skip(i, isHost), dot: -1}
	for dot := h.end - 1; dot > i; dot-- {
		if t[dot] != '.' {
			continue
		}
		if domain := t.hasAny(dot+1, topLevelDomains); domain > 0 {
			if end := pathEnd(t, domain); end > 0 {
				h.dot, h.url = dot, end
				return h
			}
		}
	}
	return h
}

func isHost(r rune) bool { return r < 0x80 && isASCIIWord(byte(r), true) || r == '.' || r == '-' }

// pathEnd returns the end of the path at i: a run of word characters, slashes and hyphens, back to its last word boundary, then
// a slash, and then no @. It returns 0 if there is no such end.
func pathEnd(t text, i int) int {
	end := t.skip(i, func(r rune) bool { return r == '/' || r == '-' || ftfy.IsWord(r) })
	at := func(i int) bool { return i < len(t) && t[i] == '@' }
	for ; end >= i; end-- {
		if !t.boundary(end) {
			continue
		}
		if end < len(t) && t[end] == '/' && !at(end+1) {
			return end + 1
		}
		if !at(end) {
			return end
		}
	}
	return 0
}
