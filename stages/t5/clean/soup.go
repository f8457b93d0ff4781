package clean

import "strings"

// soup collects the text of a document as Beautiful Soup's tree does: what comments, declarations and some
// elements hold is not text, and white space alone between two tags shrinks to one character.
type soup struct {
	out     strings.Builder
	pending []byte
	waiting bool           // something was added to pending, though it may be empty
	open    []string       // names of the open elements
	count   map[string]int // of each name in open
	hidden  int            // open elements whose text does not count
	exact   int            // open elements whose white space is kept
}

var (
	voidElements = setOfNames("area base basefont bgsound br col command embed frame hr image img input " +
		"isindex keygen link menuitem meta nextid param source spacer track wbr")
	hiddenElements = setOfNames("rt rp style script template")
	exactElements  = setOfNames("pre textarea")
)

func setOfNames(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

func newSoup() *soup { return &soup{count: map[string]int{}} }

func (s *soup) add(data string) {
	s.pending = append(s.pending, data...)
	s.waiting = true
}

// flush ends a piece of text, which counts if shown.
func (s *soup) flush(shown bool) {
	if !s.waiting {
		return
	}
	data := string(s.pending)
	if s.exact == 0 && strings.Trim(data, " \n\t\f\r") == "" {
		if strings.Contains(data, "\n") {
			data = "\n"
		} else {
			data = " "
		}
	}
	if shown {
		s.out.WriteString(data)
	}
	s.pending, s.waiting = s.pending[:0], false
}

func (s *soup) flushText() { s.flush(s.hidden == 0) }

// addHidden adds a comment, declaration or instruction: it only ends the text before it.
func (s *soup) addHidden() { s.flushText() }

// addCharacters adds a CDATA section, which is text even in elements whose text is hidden.
func (s *soup) addCharacters(data string) {
	s.flushText()
	s.add(data)
	s.flush(true)
}

// start opens an element. A void element is closed at once.
func (s *soup) start(name string) {
	s.push(name)
	if voidElements[name] {
		s.closeElement(name)
	}
}

// startAndEnd is <name/>.
func (s *soup) startAndEnd(name string) {
	s.push(name)
	s.closeElement(name)
}

func (s *soup) push(name string) {
	s.flushText()
	s.open = append(s.open, name)
	s.count[name]++
	s.enter(name, 1)
}

func (s *soup) enter(name string, by int) {
	if hiddenElements[name] {
		s.hidden += by
	}
	if exactElements[name] {
		s.exact += by
	}
}

// closeElement closes the innermost open element of the name and all inside it; without one it only ends the text.
func (s *soup) closeElement(name string) {
	s.flushText()
	for s.count[name] > 0 {
		last := s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
		s.count[last]--
		s.enter(last, -1)
		if last == name {
			return
		}
	}
}

func (s *soup) text() string {
	s.flushText()
	return s.out.String()
}
